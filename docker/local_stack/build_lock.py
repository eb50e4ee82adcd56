"""One build of the stack's own images at a time on a machine, so that a second stack finds what the first one built."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock


@contextmanager
def one_build() -> Iterator[None]:
    """
    While open, no other process of this user on this machine is in here; waits for it.

    Two builds of one name would leave the name to the second image, while the first is in use: images that are built
    from it, and are named by its id, would change their names.
    """
    file = Path(tempfile.gettempdir()) / f"container-training-own-images-{os.getuid()}.lock"
    with FileLock(file, mode=0o600):
        yield
