"""A process that takes a core and the disk from the tests, as a busy machine does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILE_BYTES = 64 * 1024**2
_COMPUTE_ROUNDS = 200_000


@contextmanager
def loaded(folder: Path) -> Iterator[None]:
    """
    Keep one core and the disk busy until the block ends.

    64 MiB are written to ``folder`` and synced again and again.

    It ends with this process too, however that ends: it looks for its parent.
    """
    with subprocess.Popen([sys.executable, "-m", "tests.suite.load", str(folder)]) as process:
        try:
            yield
        finally:
            process.kill()
    (folder / "load").unlink(missing_ok=True)


def main(folder: Path) -> None:
    """Compute and write until the parent is gone."""
    parent, block = os.getppid(), os.urandom(1024**2)
    while os.getppid() == parent:
        with (folder / "load").open("wb") as file:
            for _ in range(_FILE_BYTES // len(block)):
                file.write(block)
                sum(range(_COMPUTE_ROUNDS))
            file.flush()
            os.fsync(file.fileno())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
