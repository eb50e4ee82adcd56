"""What a builder gets: the same for each kind of builder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import BinaryIO, TypedDict

from container_training.work.images.build_context import BuildContext
from container_training.work.images.content import ImageContent
from container_training.work.images.engine import Cancellation
from container_training.work.images.labels import image_labels
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


def order_build(
    context: BuildContext,
    content: ImageContent,
    archive: BinaryIO,
    *,
    labels: Mapping[str, str],
    network_mode: str | None,
    on_line: OnLine,
    cancellation: Cancellation,
    session: BuildSession,
) -> BuildOrder:
    """
    Return the order of the image of ``context``, after a line that it is built now.

    :param content: what decides the image.
    :param archive: where ``content`` was packed; it is rewound.
    :param labels: the caller's, beside which the image gets this project's.
    """
    on_line(f"building {content.ref} from {context.directory} ({archive.tell()} bytes of context)")
    archive.seek(0)
    return BuildOrder(
        ref=content.ref,
        archive=archive,
        dockerfile=context.dockerfile,
        build_args=context.build_args,
        labels=image_labels(context, content, labels, datetime.now(UTC)),
        network_mode=network_mode,
        on_line=on_line,
        cancellation=cancellation,
        session=session,
    )


class BuildOptions(TypedDict):
    """What every way to build takes, by the names of its arguments."""

    on_line: OnLine
    find_login: FindLogin
    labels: Mapping[str, str]
    network_mode: str | None
    session: BuildSession
    cancellation: Cancellation
