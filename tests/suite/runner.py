"""Runs parts of the suite side by side, each in a pytest process, and keeps their output."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from tests.suite.parts import WIDTH, Part

#: pytest: "no tests were collected"; a part may have none of those that an option leaves.
_NOTHING_COLLECTED = 5
_MEMORY_EVERY_SECONDS = 2.0
_CHUNK_BYTES = 65536
_SAY_EVERY_SECONDS = 30.0
#: Long enough for a part to take down what it brought up.
_INTERRUPT_EVERY_SECONDS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRun:
    """
    What became of one part.

    :param status: of pytest; 0: all passed.
    :param report: JUnit XML; missing if pytest did not get to its end.
    """

    part: Part
    status: int
    seconds: float
    report: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    Where a run writes.

    :param results: reports and output of the parts; the next run replaces them.
    :param scratch: temporary folders of the tests, with the logs of their stacks.
    """

    results: Path
    scratch: Path


class Runner:
    """Runs parts; prints each line of their output with the part's name before it."""

    def __init__(self, place: Place, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self._place = place
        self._options = options
        self._environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self._is_interrupted = False
        self._printing = threading.Lock()
        #: Most memory, in bytes, that was in use at once beyond what was before the run.
        self.peak_memory_bytes = 0

    def run(self, parts: Sequence[Part]) -> list[PartRun]:
        """
        Run ``parts``, :data:`WIDTH` at a time; return their outcomes.

        An interrupt ends them all.
        """
        waiting: queue.SimpleQueue[Part] = queue.SimpleQueue()
        for part in parts:
            waiting.put(part)
        runs: list[PartRun] = []
        over = threading.Event()

        def work() -> None:
            while not self._is_interrupted:
                try:
                    part = waiting.get_nowait()
                except queue.Empty:
                    return
                runs.append(self._run(part))

        workers = [threading.Thread(target=work) for _ in range(min(WIDTH, len(parts)))]
        watcher = threading.Thread(target=self._watch_memory, args=(over,), daemon=True)
        for thread in (*workers, watcher):
            thread.start()
        try:
            for worker in workers:
                worker.join()
        except KeyboardInterrupt:
            # A terminal has told them, too; they still take down what they brought up.
            self._is_interrupted = True
            self._interrupt(workers)
            raise
        finally:
            over.set()
        if left := {part.name for part in parts} - {run.part.name for run in runs}:
            raise RuntimeError(f"did not run to its end, for what is said above: {', '.join(sorted(left))}")
        return runs

    def _interrupt(self, workers: Sequence[threading.Thread]) -> None:
        """Interrupt the parts until they are over: a test may take the first interrupt for its own."""
        while any(worker.is_alive() for worker in workers):
            for process in self._processes:
                process.send_signal(signal.SIGINT)
            for worker in workers:
                worker.join(_INTERRUPT_EVERY_SECONDS)

    def _run(self, part: Part) -> PartRun:
        report = self._place.results / f"{part.name}.xml"
        command = [
            *("nice", "-n", str(part.niceness)),
            *(sys.executable, "-m", "pytest", *part.arguments(), *self._options),
            *(f"--junitxml={report}", f"--basetemp={self._place.scratch / part.name}"),
            *("-o", f"cache_dir={self._place.results / 'cache' / part.name}"),
        ]
        begun = time.monotonic()
        with (self._place.results / f"{part.name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            self._processes.append(process)
            self._show(part.name, process.stdout, log)
            status = process.wait()
        seconds = time.monotonic() - begun
        self._say(f"{part.name}: over after {seconds:.0f} s, exit status {status}")
        return PartRun(
            part=part, status=0 if status == _NOTHING_COLLECTED else status, seconds=seconds, report=report
        )

    def _show(self, name: str, output: IO[bytes] | None, log: IO[bytes]) -> None:
        """
        Print whole lines as they come.

        An unfinished line is printed now and then, as far as it is.
        """
        assert output is not None
        line, said_at = b"", time.monotonic()
        while data := os.read(output.fileno(), _CHUNK_BYTES):
            log.write(data)
            log.flush()
            *lines, line = (line + data).split(b"\n")
            if line and time.monotonic() > said_at + _SAY_EVERY_SECONDS:
                lines, line = [*lines, line], b""
            for each in lines:
                self._say(f"{name:6} | {each.decode(errors='replace')}")
                said_at = time.monotonic()
        if line:
            self._say(f"{name:6} | {line.decode(errors='replace')}")

    def _say(self, line: str) -> None:
        with self._printing:
            print(line, flush=True)

    def _watch_memory(self, over: threading.Event) -> None:
        before = _used_memory_bytes()
        while not over.wait(_MEMORY_EVERY_SECONDS):
            self.peak_memory_bytes = max(self.peak_memory_bytes, _used_memory_bytes() - before)


def _used_memory_bytes() -> int:
    """
    Return the machine's memory that is neither free nor cache.

    Shared pages count once.

    Programs of the stacks are children of supervisord, not of pytest, so that no tree of processes has them
    all.
    """
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)
