"""Addresses of objects with a generation: ``gs://BUCKET/NAME#GENERATION``, as in gcloud."""

from __future__ import annotations

import re

_PINNED = re.compile(r"(?P<uri>gs://.+)#(?P<generation>[0-9]+)", re.DOTALL)


def pinned(uri: str, generation: int | None) -> str:
    """Return the address of one generation of ``uri``; without a generation, ``uri``. Pure."""
    return uri if generation is None else f"{uri}#{generation}"


def split_pinned(uri: str) -> tuple[str, int | None]:
    """
    Return the address without its generation, and the generation or ``None``. Pure.

    Deviation: an object whose own name ends with ``#`` and digits must be addressed with its generation, as
    for gcloud.
    """
    match = _PINNED.fullmatch(uri)
    return (match["uri"], int(match["generation"])) if match else (uri, None)
