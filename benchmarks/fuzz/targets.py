"""The programs under test. Each runs as a process on loopback, in its own folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.fuzz.requests import Sample, Vocabulary
from benchmarks.fuzz.samples import STORE_SAMPLES, service_samples, service_words, store_words
from benchmarks.fuzz.wire import Answer
from benchmarks.fuzz.witness import NOTES
from local_stack.processes.ports import free_port

_REPOSITORY = Path(__file__).resolve().parents[2]
_LOG = "log"
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """
    A program, and what it is asked.

    :param folder: its working folder, with all that it writes.
    """

    name: str
    process: psutil.Process
    port: int
    folder: Path
    samples: Sequence[Sample]
    words: Vocabulary

    def learn(self, answer: Answer) -> None:
        """Take the names of what has come to be, for later requests."""
        if location := answer.headers.get("location"):
            for key in re.findall(r"upload_id=([\w-]+)", location):
                self.words.add("upload", key)
        for key in re.findall(rb"<UploadId>([\w-]+)</UploadId>", answer.body):
            self.words.add("parts", key.decode())

    def memory(self) -> int:
        """Return how many bytes of memory it takes now."""
        return int(self.process.memory_info().rss)

    def outside(self) -> list[str]:
        """Return what it has changed outside its folder."""
        return (self.folder / NOTES).read_text("utf-8", "replace").splitlines()

    def tracebacks(self) -> list[str]:
        """Return the tracebacks in its log; each one is an unexpected error."""
        log = (self.folder / _LOG).read_text("utf-8", "replace")
        return [part[:8000] for part in log.split("Traceback (most recent call last)")[1:]]


@contextmanager
def service_target(folder: Path) -> Iterator[Target]:
    """Run a training service over an engine in memory until the block ends."""
    url = f"sqlite:///{folder}/jobs.db"
    with _process("benchmarks.support.memory_service", ["--database-url", url], folder) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        page = _get(f"http://127.0.0.1:{port}/openapi.json").json()
        yield Target(
            "service", psutil.Process(process.pid), port, folder, service_samples(page), service_words(page)
        )


@contextmanager
def store_target(folder: Path, port: int = 0) -> Iterator[Target]:
    """
    Run an object store until the block ends.

    :param port: 0: one that is free now.
    """
    port = port or free_port()
    arguments = ["serve", "--root", str(folder / "root"), "--port", str(port)]
    with _process("object_store", arguments, folder) as process:
        _get(f"http://127.0.0.1:{port}/health")
        yield Target("object store", psutil.Process(process.pid), port, folder, STORE_SAMPLES, store_words())


@contextmanager
def _process(module: str, arguments: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    places = {
        "HOME": folder,
        "TMPDIR": folder,
        "TRAINING_KEY_DIR": folder,
        "TRAINING_METRICS_DIR": folder / "metrics",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINING_")}
    environment = kept | {name: str(place) for name, place in places.items()}
    environment |= {"PYTHONPATH": str(_REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "benchmarks.fuzz.witness", str(folder), module, *arguments]
    with (
        (folder / _LOG).open("wb") as log,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def _get(url: str) -> httpx.Response:
    give_up_at = time.monotonic() + _SECONDS
    while True:
        try:
            return httpx.get(url, trust_env=False)
        except httpx.TransportError:
            if time.monotonic() > give_up_at:
                raise
        time.sleep(0.1)
