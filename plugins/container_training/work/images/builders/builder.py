"""Who builds an image: one of an engine's two builders, or a remote BuildKit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from container_training.work.images.builders.remote_builder import RemoteBuilder
from training_api.errors import BuildKitMissing, InvalidRequest


class Builder(StrEnum):
    """What the caller asks for."""

    AUTO = (
        "auto"  #: the remote one if there is one; else BuildKit if the build needs it, else the classic one
    )
    CLASSIC = "classic"  #: the one behind the engine's API, without a command line
    BUILDKIT = "buildkit"  #: by docker's command line, which holds the session that secrets come through
    BUILDX = "buildx"  #: the remote one, by the plugin buildx, without an engine


def parse_builder(text: str) -> Builder:
    """Return the builder called ``text``. :raises InvalidRequest: there is none."""
    try:
        return Builder(text)
    except ValueError as error:
        names = ", ".join(Builder)
        rule = f"must be one of {names}, got {text!r}; 'auto' fits most images"
        raise InvalidRequest.of("builder", rule) from error


def is_buildkit(builder: Builder, needs: Sequence[str]) -> bool:
    """
    Return whether BuildKit is to build.

    :param needs: what only BuildKit can do; the reasons.
    :raises BuildKitMissing: the classic builder was asked for, and cannot do it.
    """
    if builder is Builder.CLASSIC and needs:
        raise BuildKitMissing(
            f"the classic builder knows no {', '.join(needs)}; set builder to 'auto' or 'buildkit'"
        )
    return builder is Builder.BUILDKIT or bool(needs)


def remote_for(builder: Builder, find: Callable[[], RemoteBuilder | None]) -> RemoteBuilder | None:
    """
    Return the remote builder that is to build; ``None``: one of the engine's.

    :param find: returns what the connection names; called only where that matters.
    :raises InvalidRequest: it was asked for, and there is none; or the connection names none that can be.
    """
    if builder not in (Builder.AUTO, Builder.BUILDX):
        return None
    remote = find()
    if builder is Builder.BUILDX and remote is None:
        raise InvalidRequest.of(
            "builder",
            f"{builder.value!r} needs a remote builder; set extra builder_url or builder_name of the docker "
            "connection, or take another builder",
        )
    return remote
