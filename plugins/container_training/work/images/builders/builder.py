"""Which of an engine's two builders builds an image. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from training_api.errors import BuildKitMissing, FieldViolation, InvalidRequest


class Builder(StrEnum):
    """What the caller asks for."""

    AUTO = "auto"  #: BuildKit if the build needs it, else the classic one
    CLASSIC = "classic"  #: the one behind the engine's API, without a command line
    BUILDKIT = "buildkit"  #: by docker's command line, which holds the session that secrets come through


def parse_builder(text: str) -> Builder:
    """Return the builder called ``text``. :raises InvalidRequest: there is none."""
    try:
        return Builder(text)
    except ValueError as error:
        names = ", ".join(Builder)
        violation = FieldViolation(
            field="builder", description=f"must be one of {names}, got {text!r}; 'auto' fits most images"
        )
        raise InvalidRequest([violation]) from error


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
