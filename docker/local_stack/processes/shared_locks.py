"""Locks that the stacks of one machine share, from whatever checkout they are."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

#: Not the folder of TMPDIR, which may be another one for each run of tests.
FOLDER = Path("/var/tmp")  # noqa: S108  # shared on purpose; the files are empty


@contextmanager
def one_build() -> Iterator[None]:
    """
    Hold the lock for building the stack's own images.

    One process of this user on this machine has it.

    The second of two builds would take the name from the first image, which is in use already. Images that
    are built from it are named by its id, and their names would change.
    """
    with _one_at_a_time("own-images"):
        yield


@contextmanager
def one_installation() -> Iterator[None]:
    """
    Hold the lock for installing packages.

    apt-get fails while another one reads the lists of packages.
    """
    with _one_at_a_time("packages"):
        yield


@contextmanager
def one_engine_start() -> Iterator[None]:
    """Hold the lock for starting the engine: of two that start on one socket, the second fails."""
    with _one_at_a_time("engine-start"):
        yield


@contextmanager
def _one_at_a_time(what: str) -> Iterator[None]:
    with FileLock(FOLDER / f"container-training-{what}-{os.getuid()}.lock", mode=0o600):
        yield


@contextmanager
def engine_in_use(engine_url: str, folder: Path = FOLDER) -> Iterator[Callable[[], bool]]:
    """
    Note that this process uses the engine, so that no other test bed stops it meanwhile.

    :param folder: where the locks of all engines lie.
    :return: a function: is this process the only user? Once it has returned true, others wait until the block
        ends.
    """
    name = f"container-training-engine-{hashlib.sha256(engine_url.encode()).hexdigest()[:12]}.lock"
    file = folder / name
    if not file.exists():
        file.touch(mode=0o644)  # another user may only read it, which is enough for a lock
    with file.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)

        def is_only_user() -> bool:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        yield is_only_user
