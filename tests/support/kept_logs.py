"""The folders of the logs of a test's programs; the message of a failure names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_folders: dict[Path, str] = {}


@contextmanager
def logs_in(folder: Path, what: str) -> Iterator[None]:
    """Name ``folder`` in each failure until the block ends, and in one that ends it."""
    _folders[folder] = what
    try:
        yield
    except BaseException as error:  # that of a start that failed, or of pytest.fail()
        error.add_note(f"{what}: {folder}")  # its report is made when the block is over
        raise
    finally:
        del _folders[folder]


def say_where() -> str:
    """Return a line for each folder that programs write to now; empty: none do."""
    return "\n".join(f"{what}: {folder}" for folder, what in _folders.items())
