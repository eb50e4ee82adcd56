"""
File leases of Linux.

A process that opens a leased file for writing waits until the holder of the lease has let go.

A trainer that reports faster than it is read is so held for the moment that reading takes, and nothing it
wrote is lost. Source: fcntl(2), "Leases"; the kernel breaks a lease itself after
``/proc/sys/fs/lease-break-time`` (45 s). A file system, or an operating system, that has no leases is read at
short intervals instead.
"""

from __future__ import annotations

import fcntl
import signal
import struct
import sys
import threading
from contextlib import suppress

_F_SETOWN_EX, _F_OWNER_TID = 15, 0  # fcntl.h; Python has no names for them
_HAS_LEASES = sys.platform == "linux"


def take_lease(fd: int, thread_id: int) -> bool:
    """
    Take a read lease on a file that was opened for reading.

    ``False``: it is not this user's, or there are no leases.

    :param thread_id: the kernel's id of the thread that a break is told to, by SIGIO; it must block that
        signal.
    :raises BlockingIOError: somebody has the file open for writing, or waits for it.
    """
    if not _HAS_LEASES or not thread_id:
        return False
    try:
        # In this order: without an owner, the signal would go to the process, and end it.
        fcntl.fcntl(fd, _F_SETOWN_EX, struct.pack("ii", _F_OWNER_TID, thread_id))
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def is_lease_broken(fd: int) -> bool:
    """Tell whether a process waits for a leased file, or was let in after the kernel's limit."""
    return fcntl.fcntl(fd, fcntl.F_GETLEASE) != fcntl.F_RDLCK


def release_lease(fd: int) -> None:
    """Let in who waits; no error if there is no lease."""
    if _HAS_LEASES:
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError:
            return


class BreakSignal:
    """What one thread waits on, for the leases that it is told of."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def thread_id(self) -> int:
        """The kernel's id of the waiting thread; 0 while there is none."""
        thread = self._thread
        return (thread.native_id or 0) if thread and thread.is_alive() else 0

    def enter(self) -> None:
        """Make the calling thread the one that waits."""
        if _HAS_LEASES:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
        self._thread = threading.current_thread()

    def wait(self, seconds: float) -> None:
        """Return when a lease is broken, ``wake`` was called, or ``seconds`` have passed."""
        if _HAS_LEASES:
            signal.sigtimedwait({signal.SIGIO}, seconds)
        else:
            self._event.wait(seconds)
            self._event.clear()

    def wake(self) -> None:
        """Have the waiting thread look now."""
        self._event.set()
        thread = self._thread
        if _HAS_LEASES and thread and thread.ident and thread.is_alive():
            with suppress(ProcessLookupError):  # it has ended just now
                signal.pthread_kill(thread.ident, signal.SIGIO)
