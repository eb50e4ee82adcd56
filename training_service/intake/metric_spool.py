"""
The folder that a container writes its metrics to.

It is read so that no report is lost, however fast the container reports.

``cloudml-hypertune`` opens one path and writes over what is there. So the path always leads to an empty file
with a lease (``lease.py``): the trainer's open waits, the next empty file takes over the path, and the
trainer is let into the one that it had found. Each report is so in a file of its own, also if the trainer is
killed while it writes the next.

Layout: ``mount/`` is what the container sees, ``spool/`` has all files that are not yet stored, numbered.
The container may do anything within ``mount/``: files are opened without following links and without waiting.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

from container_engines.base import METRIC_FILE_NAME
from training_api.job.tuning.metric_file import MAX_FILE_BYTES
from training_service.intake.lease import is_lease_broken, release_lease, take_lease

#: Without leases nobody tells when the trainer has closed a file: it has it open for milliseconds.
_SETTLE_SECONDS = 0.05
#: A file that stays open, as of a trainer that appends to it, is read while it is.
_PATIENCE_SECONDS = 1.0
#: That a trainer may have open at a time: each takes a descriptor of the service.
MOST_FILES = 64
#: That are read in one go: of those that an earlier process has left there may be very many.
_MOST_READ = 500
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class _File:
    """
    A file of the spool.

    :param fd: -1: it is not open, as those that an earlier process has left are until they are read.
    :param identity: device and inode.
    """

    path: Path
    fd: int = -1
    identity: tuple[int, int] = (0, 0)
    is_leased: bool = False
    released_at: float = field(default_factory=time.monotonic)
    size_seen: int = 0


class MetricSpool:
    """
    One container's folder. Not safe for threads.

    :param folder: made if it is missing; ``mount/`` in it is for the container.
    :param thread_id: the thread that is told when the trainer writes, see ``take_lease``; 0: nobody.
    """

    def __init__(self, folder: Path, thread_id: int) -> None:
        self.mount = folder / "mount"
        self._path = os.fspath(self.mount / METRIC_FILE_NAME)
        self._spool = folder / "spool"
        self._thread_id = thread_id
        self._spool.mkdir(parents=True, exist_ok=True)
        self.mount.mkdir(exist_ok=True)
        # Whoever the image's user is, it may write; no sticky bit, or the kernel may refuse it files that are
        # not its.
        self.mount.chmod(0o777)
        self._current: _File | None = None
        #: What was read, and goes once it is stored.
        self._read: list[Path] = []
        left = sorted(self._spool.iterdir())
        self._number = int(left[-1].name) if left else 0
        self._written = [_File(path) for path in left]

    @property
    def is_leased(self) -> bool:
        """Whether the trainer waits until it is read; otherwise it has to be looked at often."""
        return self._current is not None and self._current.is_leased

    @property
    def is_waiting(self) -> bool:
        """Whether files are there that the trainer may not have closed yet."""
        return bool(self._written)

    def turn(self) -> None:
        """
        Give the trainer the next file, if it has written, or wants to write, to the one it has.

        One that leaves many files open waits until it has closed some.
        """
        if len(self._written) >= MOST_FILES:
            return
        if self._current is None or self._is_used(self._current):
            self._save_foreign_file()
            self._publish()

    def read(self, *, is_ended: bool = False) -> list[bytes]:
        """
        Return the content of closed files, oldest first, and the state of those still open.

        Not of all, if there are very many: ``is_waiting`` says so.

        :param is_ended: nobody writes any more: all of them, those cut short too.
        """
        if is_ended:
            self._save_foreign_file()
            if self._current:
                self._release(self._current)
                self._current = None
        contents = []
        for file in self._written[:_MOST_READ]:
            if file.fd < 0:
                file.fd = os.open(file.path, _OPEN)
            if is_ended or self._is_closed(file):
                contents.append(_read_tail(file.fd))
                os.close(file.fd)
                self._written.remove(file)
                self._read.append(file.path)
            elif self._has_grown(file):
                contents.append(_read_tail(file.fd))
        return contents

    def discard(self) -> None:
        """Remove the files that were read: what was in them is stored."""
        for path in self._read:
            path.unlink(missing_ok=True)
        self._read.clear()

    def close(self) -> None:
        """Let go of everything; the files stay."""
        for file in [*self._written, *([self._current] if self._current else [])]:
            if file.fd >= 0:
                os.close(file.fd)
        self._written.clear()
        self._current = None

    def _is_used(self, file: _File) -> bool:
        # Asked for each container, five times a second. Who writes to a leased file breaks the lease.
        if is_lease_broken(file.fd) if file.is_leased else os.fstat(file.fd).st_size > 0:
            return True
        try:
            at_path = os.lstat(self._path)
        except FileNotFoundError:
            return True
        return (at_path.st_dev, at_path.st_ino) != file.identity

    def _publish(self) -> None:
        """Put an empty, leased file in the place of the current one, and let the trainer into that."""
        self._number += 1
        path = self._spool / f"{self._number:09d}"
        fd = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(fd, 0o666)
        made = os.fstat(fd)
        successor = _File(path, fd, (made.st_dev, made.st_ino), is_leased=take_lease(fd, self._thread_id))
        name = self._spool.parent / "next"
        name.unlink(missing_ok=True)
        name.hardlink_to(path)
        name.replace(self._path)
        if self._current:
            self._release(self._current)
        self._current = successor

    def _release(self, file: _File) -> None:
        release_lease(file.fd)
        file.released_at = time.monotonic()
        self._written.append(file)

    def _is_closed(self, file: _File) -> bool:
        # A lease is given only if nobody has the file open for writing, nor waits to.
        try:
            if take_lease(file.fd, self._thread_id):
                release_lease(file.fd)
                return True
        except BlockingIOError:
            return False
        return time.monotonic() - file.released_at >= _SETTLE_SECONDS

    @staticmethod
    def _has_grown(file: _File) -> bool:
        if time.monotonic() - file.released_at < _PATIENCE_SECONDS:
            return False
        before, file.size_seen = file.size_seen, os.fstat(file.fd).st_size
        return file.size_seen != before

    def _save_foreign_file(self) -> None:
        """Take a file that the trainer put in place of ours into the spool; remove anything else."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return
        ours = {_inode(file) for file in self._written}
        ours |= {os.fstat(self._current.fd).st_ino} if self._current else set()
        if found.st_ino in ours:
            return
        self._number += 1
        path = self._spool / f"{self._number:09d}"
        Path(self._path).rename(path)
        # Only now nobody but the service can change what it is.
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            self._written.append(_File(path, os.open(path, _OPEN)))
        elif stat.S_ISDIR(mode):
            # It goes with the job's folder: to remove it could take long.
            path.rename(self._spool.parent / f"foreign-{self._number:09d}")
        else:
            path.unlink()


def _inode(file: _File) -> int:
    return (file.path.stat() if file.fd < 0 else os.fstat(file.fd)).st_ino


def _read_tail(fd: int) -> bytes:
    """Return the end of a regular file; of a pipe or a device, nothing."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        return b""
    return os.pread(fd, MAX_FILE_BYTES, max(found.st_size - MAX_FILE_BYTES, 0))
