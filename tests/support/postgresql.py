"""A folder for a stack's PostgreSQL: the pytest folders are the tests' user's alone, and the server runs as another one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def database_folder() -> Iterator[Path]:
    """Yield the path of a folder that does not exist yet; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="ct-tests-", dir="/var/tmp") as parent:
        Path(parent).chmod(0o711)
        yield Path(parent) / "postgresql"
