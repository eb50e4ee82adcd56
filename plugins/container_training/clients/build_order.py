"""What a builder is told: the same for each kind of builder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from container_training.clients.engine import Cancellation
from container_training.core.image_ref import ImageRef

OnLine = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """
    One image to build.

    :param ref: the name that the image gets.
    :param archive: the packed context, read from its start.
    :param dockerfile: path of the Dockerfile within it.
    :param network_mode: network of the RUN steps; ``None`` is the engine's default.
    :param on_line: called with each line of output, as it comes.
    :param secrets: value by id, for ``RUN --mount=type=secret``.
    :param ssh: agent socket or key file by id, for ``RUN --mount=type=ssh``; empty: the agent of ``SSH_AUTH_SOCK``.
    """

    ref: ImageRef
    archive: BinaryIO
    dockerfile: str
    build_args: Mapping[str, str]
    labels: Mapping[str, str]
    network_mode: str | None
    on_line: OnLine
    cancellation: Cancellation
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    ssh: Mapping[str, str] = field(default_factory=dict)
