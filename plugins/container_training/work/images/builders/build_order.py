"""What a builder gets: the same for each kind of builder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, TypedDict

from container_training.work.images.engine import Cancellation
from container_training.work.images.registry import FindLogin
from training_api.errors import InvalidRequest
from training_api.job.image_ref import ImageRef

OnLine = Callable[[str], None]
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSession:
    """
    Secrets and SSH agents for a build's steps, never part of the image; BuildKit only.

    :param secret_ids: of ``RUN --mount=type=secret``.
    :param read_secrets: returns their values by id; called only when something has to be built.
    :param ssh: agent socket or key file by id, for ``RUN --mount=type=ssh``; empty: the agent of
        ``SSH_AUTH_SOCK``.
    :raises InvalidRequest: a command line cannot carry an id.
    """

    secret_ids: tuple[str, ...] = ()
    read_secrets: Callable[[], Mapping[str, bytes]] = dict
    ssh: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if wrong := [id_ for id_ in (*self.secret_ids, *self.ssh) if not _ID.fullmatch(id_)]:
            rule = (
                f"ids of secrets and SSH agents must be letters, digits, '.', '_' and '-', got {wrong[0]!r}"
            )
            raise InvalidRequest.of("secrets", rule)

    @property
    def ids(self) -> list[str]:
        """The ids, without values; they count in the image's tag, as a step may work without one."""
        return [
            *(f"secret {id_}" for id_ in sorted(self.secret_ids)),
            *(f"ssh {id_}" for id_ in sorted(self.ssh)),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """
    One image to build.

    :param ref: the name that the image gets.
    :param archive: the packed context, read from its start.
    :param dockerfile: path of the Dockerfile within it.
    :param network_mode: network of the RUN steps; ``None``: the engine's default.
    :param on_line: called with each line of output, as it comes.
    """

    ref: ImageRef
    archive: BinaryIO
    dockerfile: str
    build_args: Mapping[str, str]
    labels: Mapping[str, str]
    network_mode: str | None
    on_line: OnLine
    cancellation: Cancellation
    session: BuildSession


class BuildOptions(TypedDict):
    """What every way to build takes, by the names of its arguments."""

    on_line: OnLine
    find_login: FindLogin
    labels: Mapping[str, str]
    network_mode: str | None
    session: BuildSession
    cancellation: Cancellation
