"""
Measure how fast and how small the object store is with one object of 1 GB.

google-cloud-storage uploads it in chunks of 64 MiB and downloads it. Beside it, in the same run: the client
against a server that throws the bytes away, and ``cp`` and ``sha256sum`` of the same file on the same disk.
Each measurement is taken three times, in turns. Memory is the store's resident set, sampled all the time.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

from benchmarks.report import Figure, median_figure
from benchmarks.support.store_process import BUCKET, StoreProcess, client_of, sink_process, store_process

ROUNDS = 3
SIZE = 1 << 30
CHUNK = 64 << 20
_MIB = 1 << 20
_SAMPLE_SECONDS = 0.1


def measure() -> list[Figure]:
    """Return times, ratios and memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bench-store-") as folder:  # on the disk
        file = Path(folder) / "object"
        _write(file)
        with store_process(Path(folder) / "store") as store, sink_process() as sink:
            return _measure(store, sink, file)


def _measure(store: StoreProcess, sink: str, file: Path) -> list[Figure]:
    copy = file.with_name("copy")
    up, thrown, down, by_hand = [], [], [], []
    peak = _Peak(store.process)
    for _ in range(ROUNDS):
        thrown.append(_seconds(lambda: _upload(sink, file)))
        up.append(_seconds(lambda: _upload(store.url, file)))
        down.append(_seconds(lambda: _download(store.url, copy)))
        by_hand.append(_seconds(lambda: _copy(file, copy)))
    return [
        median_figure("1 GB up", up, limit=10.0),
        median_figure("1 GB to a server that throws it away", thrown),
        median_figure("ratio", [one / other for one, other in zip(up, thrown, strict=True)], "x", limit=3.0),
        median_figure("1 GB down", down, limit=3.8),
        median_figure("cp and sha256sum of 1 GB", by_hand),
        Figure(name="memory at the peak", value=round(peak.end() / _MIB, 1), unit="MiB", limit=100.0),
    ]


class _Peak:
    """The largest resident set of a process from now on."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._ended = Event()
        self._bytes = 0
        self._thread = Thread(target=self._sample)
        self._thread.start()

    def end(self) -> int:
        """Return it in bytes."""
        self._ended.set()
        self._thread.join()
        return self._bytes

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self._bytes = max(self._bytes, self._process.memory_info().rss)


def _write(file: Path) -> None:
    block = bytes(range(256)) * 4096
    with file.open("wb") as target:
        for number in range(SIZE // len(block)):
            target.write(number.to_bytes(8, "big") + block[8:])


def _upload(url: str, file: Path) -> None:
    with client_of(url) as client:
        blob: Any = client.bucket(BUCKET).blob("large", chunk_size=CHUNK)
        blob.upload_from_filename(str(file), checksum=None)


def _download(url: str, target: Path) -> None:
    with client_of(url) as client:
        client.bucket(BUCKET).blob("large").download_to_filename(str(target))


def _copy(file: Path, target: Path) -> None:
    subprocess.run(["cp", str(file), str(target)], check=True)
    subprocess.run(["sha256sum", str(target)], check=True, stdout=subprocess.DEVNULL)


def _seconds(do: Callable[[], None]) -> float:
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun
