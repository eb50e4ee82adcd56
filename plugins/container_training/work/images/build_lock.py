"""One build of an image at a time per machine: the second process finds the first one's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from container_training.work.images.engine import Cancellation
from training_api.errors import BuildFailed
from training_api.job.image_ref import ImageRef

_POLL_SECONDS = 0.1
#: Not the folder of TMPDIR: two workers with different ones would build side by side.
_FOLDER = Path("/var/tmp")  # noqa: S108  # shared on purpose; the files are empty


@contextmanager
def one_build_of(ref: ImageRef, cancellation: Cancellation, on_line: Callable[[str], None]) -> Iterator[None]:
    """
    While open, no other process of this user on this machine is in here for ``ref``.

    The kernel releases the lock when its process ends, however it ends. A machine on which no lock file can
    be made builds without one: building the same image twice at once is wasteful, and the second build gets
    the name.

    :raises BuildFailed: the wait was cancelled.
    """
    # Imported on use: a task that builds nothing must be quick, and needs no lock.
    from filelock import FileLock, Timeout

    file = _lock_file(ref)
    lock = FileLock(file, mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_line(f"another task is building {ref}; waiting for it")
        try:
            lock.acquire(poll_interval=_POLL_SECONDS, cancel_check=lambda: cancellation.is_cancelled)
        except Timeout as error:
            raise BuildFailed("the build was cancelled") from error
    except OSError as error:
        on_line(f"building without a lock against a second build of the same image: {error}")
    try:
        yield
    finally:
        if lock.is_locked:
            file.unlink(missing_ok=True)  # a waiting process sees that, and makes it again
        lock.release()


def _lock_file(ref: ImageRef) -> Path:
    name = hashlib.sha256(str(ref).encode()).hexdigest()[:16]
    return _FOLDER / f"container-training-build-{os.getuid()}-{name}.lock"
