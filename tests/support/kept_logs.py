"""The folders of the logs of a test's programs; the message of a failure names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_folders: dict[Path, str] = {}


@contextmanager
def logs_in(folder: Path, what: str) -> Iterator[None]:
    """Name ``folder`` in each failure that happens until the block ends."""
    _folders[folder] = what
    try:
        yield
    finally:
        del _folders[folder]


def say_where() -> str:
    """Return a line for each folder that programs write to now; empty: none do."""
    return "\n".join(f"{what}: {folder}" for folder, what in _folders.items())
