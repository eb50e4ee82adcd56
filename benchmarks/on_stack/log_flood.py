"""
What does a trainer that writes 10 MB/s for a minute cost, and whom?

The baseline is ``docker run`` of the same program, without a reader of its log. A second job's ``get`` is
timed meanwhile.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.report import Figure
from benchmarks.support.bench_jobs import has_ended, new_job, submit
from benchmarks.support.core_share import core_share
from local_stack.settings import Part
from local_stack.stack import LocalStack
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.states import JobState

FLOOD_SECONDS = 60
BYTES_PER_SECOND = 10_000_000
LINE_BYTES = 200
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 600.0
_MIB = 2**20
#: Writes at a fixed pace as long as nobody holds it up; its last line says how long it took.
PROGRAM = """
import os, sys, time
seconds, rate, size = map(int, sys.argv[1:])
begun, written, place = time.monotonic(), 0, 0
while written < seconds * rate:
    count = max(rate // size // 20, 1)
    block = b"".join(b"%010d %s\\n" % (place + i, b"x" * (size - 12)) for i in range(count))
    place += count
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
    written += len(block)
    time.sleep(max(begun + written / rate - time.monotonic(), 0))
print("flood of", place, "lines took", round(time.monotonic() - begun, 2), "s", flush=True)
"""


def measure(stack: LocalStack, image: str, seconds: int = FLOOD_SECONDS) -> list[Figure]:
    """
    Return how the trainer, the service and a reader fared.

    :param image: in the stack's registry, by digest; it has ``python3``.
    """
    arguments = [str(seconds), str(BYTES_PER_SECOND), str(LINE_BYTES)]
    alone = _time_docker_run(image, arguments)
    process = psutil.Process(_service_pid(stack))
    database = stack.settings.state_dir.absolute() / "training" / "jobs.db"
    before_bytes, before_resident = _size(database), process.memory_info().rss
    with TrainingClient(stack.settings.training_url, stack.settings.project) as client:
        watcher = _Watcher(process)
        job_id = submit(client, new_job(image, ["python3", "-c", PROGRAM], arguments))
        with watcher, core_share(process) as share:
            latencies = _wait_for_end(client, job_id)
            seen_at = datetime.now(UTC)
        lines = client.list_log_entries(
            f'{job_log_filter(job_id, task_name="master-replica-0")} AND textPayload:"flood of"'
        ).entries
        assert lines, "the last line of a flood must be kept"
        said = re.search(r"took ([\d.]+) s", lines[-1].message)
        assert said is not None, lines[-1].message
        written = int(re.search(r"of (\d+) lines", lines[-1].message)[1])  # type: ignore[index]
        kept, dropped = _count(client, job_id)
        drain = (seen_at - lines[-1].timestamp).total_seconds()
    latencies.sort()
    return [
        Figure(
            name="trainer's time, of docker run's",
            value=round(float(said[1]) / alone, 3),
            unit="x",
            limit=1.1,
        ),
        Figure(name="trainer's time", value=float(said[1]), unit="s"),
        Figure(name="last line to the job's end", value=round(drain, 2), unit="s", limit=15),
        Figure(
            name="service's memory, growth",
            value=round((watcher.peak_bytes - before_resident) / _MIB, 1),
            unit="MiB",
            limit=100,
        ),
        Figure(
            name="database's growth",
            value=round((_size(database) - before_bytes) / _MIB, 1),
            unit="MiB",
            limit=150,
        ),
        Figure(name="get meanwhile, p50", value=round(latencies[len(latencies) // 2] * 1000, 1), unit="ms"),
        Figure(
            name="get meanwhile, p99",
            value=round(latencies[int(len(latencies) * 0.99)] * 1000, 1),
            unit="ms",
            limit=250,
        ),
        Figure(name="lines kept", value=kept, unit="lines"),
        Figure(name="lines dropped, as the log says", value=dropped, unit="lines"),
        Figure(name="lines of which nothing is said", value=written - kept - dropped, unit="lines", limit=0),
        Figure(name="service, of one core", value=round(share.percent, 1), unit="%"),
    ]


def _count(client: TrainingClient, job_id: str) -> tuple[int, int]:
    """Return how many of the flood's lines are in the log, and how many it says were dropped."""
    kept = dropped = 0
    last = -1
    token = ""
    while True:
        page = client.list_log_entries(job_log_filter(job_id, task_name="master-replica-0"), page_token=token)
        for entry in page.entries or []:
            loss = re.match(r"At least (\d+) lines \(\d+ bytes\) were dropped", entry.message)
            if loss:
                dropped += int(loss[1])
            elif entry.message[:10].isdecimal():
                assert int(entry.message[:10]) > last, "lines come once and in their order"
                last = int(entry.message[:10])
                kept += 1
        token = page.next_page_token or ""
        if not token:
            return kept, dropped


class _Watcher:
    """The largest memory of a process while the block runs."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak_bytes = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)


def _wait_for_end(client: TrainingClient, job_id: str) -> list[float]:
    """Return the seconds of every ``get`` until the job has ended."""
    latencies = []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        begun = time.perf_counter()
        job = client.get_job(job_id)
        latencies.append(time.perf_counter() - begun)
        if has_ended(job):
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"{job_id} has not ended after {_PATIENCE_SECONDS} s: {job.state}")
        time.sleep(_POLL_SECONDS)
    if job.state is not JobState.SUCCEEDED:
        raise RuntimeError(f"{job_id} is {job.state}: {job.error_message}")
    return latencies


def _time_docker_run(image: str, arguments: list[str]) -> float:
    """Return the seconds that the program says it took, with the log driver that jobs have."""
    options = ["--log-driver", "local", "--log-opt", "max-size=256m", "--log-opt", "compress=false"]
    command = ["docker", "run", "--detach", *options, image, "python3", "-c", PROGRAM, *arguments]
    container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        subprocess.run(["docker", "wait", container], check=True, capture_output=True)
        told = subprocess.run(
            ["docker", "logs", "--tail", "1", container], check=True, capture_output=True, text=True
        )
        said = re.search(r"took ([\d.]+) s", told.stdout)
        if said is None:
            raise RuntimeError(f"docker run {image} ended with {told.stdout!r}")
        return float(said[1])
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", container], check=True, capture_output=True)


def _service_pid(stack: LocalStack) -> int:
    (pid,) = [info.pid for info in stack.processes.all().values() if info.name == Part.TRAINING.value]
    assert pid is not None
    return pid


def _size(database: Path) -> int:
    return sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))
