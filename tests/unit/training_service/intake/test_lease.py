"""File leases: who opens a leased file for writing waits until it was let go."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from training_service.intake import lease
from training_service.intake.lease import BreakSignal, is_lease_broken, release_lease, take_lease


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


@pytest.fixture
def fd(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    yield fd
    os.close(fd)


class Waiting:
    """A thread that waits for broken leases, and counts how often it was woken."""

    def __init__(self) -> None:
        self.signal = BreakSignal()
        self.woken = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(lambda: self.signal.thread_id, "the thread waits")

    def _run(self) -> None:
        self.signal.enter()
        while not self._is_over:
            self.signal.wait(60.0)
            self.woken += 1

    def stop(self) -> None:
        self._is_over = True
        self.signal.wake()
        self._thread.join()


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    waiting = Waiting()
    yield waiting
    waiting.stop()


def test_without_a_thread_to_tell_there_is_no_lease(fd: int) -> None:
    assert not take_lease(fd, 0)
    release_lease(fd)


def test_where_there_are_no_leases_none_is_taken(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_HAS_LEASES", False)

    assert not take_lease(fd, threading.get_native_id())
    release_lease(fd)


def test_a_file_that_somebody_writes_is_not_leased(path: Path, fd: int, waiting: Waiting) -> None:
    with path.open("wb"), pytest.raises(BlockingIOError):
        take_lease(fd, waiting.signal.thread_id)


def test_a_writer_waits_until_it_is_let_in_and_the_reader_is_told(
    path: Path, fd: int, waiting: Waiting
) -> None:
    assert take_lease(fd, waiting.signal.thread_id)
    assert not is_lease_broken(fd)
    written = threading.Event()

    def write() -> None:
        path.write_bytes(b"report")
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: is_lease_broken(fd), "somebody waits for the file")
    wait_until(lambda: waiting.woken, "the reader is told")
    assert not written.is_set()

    release_lease(fd)

    writer.join()
    assert path.read_bytes() == b"report"


def test_a_reader_is_woken_before_its_time(waiting: Waiting) -> None:
    begun = time.monotonic()

    waiting.signal.wake()

    wait_until(lambda: waiting.woken, "the thread was woken")
    assert time.monotonic() - begun < 60


def test_without_leases_a_reader_is_woken_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_HAS_LEASES", False)
    signal = BreakSignal()
    assert signal.thread_id == 0

    signal.wake()

    begun = time.monotonic()
    signal.wait(60.0)
    assert time.monotonic() - begun < 60


def test_nobody_waits_after_the_threads_end(waiting: Waiting) -> None:
    waiting.stop()

    assert waiting.signal.thread_id == 0
    waiting.signal.wake()
