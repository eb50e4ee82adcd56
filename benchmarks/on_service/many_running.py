"""
Measure a service with 1,000 running jobs.

Five more come, and five are cancelled, each second.

The service is a process with SQLite and an engine in memory, asked over HTTP. Iterations of its loop are
counted by its own histogram. ``python -m benchmarks running``
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.report import Figure, percentile_figure, print_report
from benchmarks.support.core_share import core_share
from benchmarks.support.memory_service import MemoryService, memory_service
from benchmarks.support.stored_jobs import TRAINING

RUNNING = 1000
NEW_PER_SECOND = 5
SECONDS = 60
GETS_PER_SECOND = 10
MAX_ITERATION_SECONDS = 0.25
#: What counts as long: the limit, and twice that, for machines that take twice what the reference takes.
_LONG = (MAX_ITERATION_SECONDS, 2 * MAX_ITERATION_SECONDS)
MAX_GET_SECONDS = 0.05
MAX_MIB = 1e9 / 2**20
_PATIENCE_SECONDS = 300.0
_MIB = 2**20
_JOBS = "/v1/projects/bench/jobs"
#: A job is lost if the service does not know it, or if it does not do what it was asked to.
_GOING_ON, _CANCELLED = {"QUEUED", "PREPARING", "RUNNING"}, {"CANCELLING", "CANCELLED"}


@dataclass(slots=True)
class _Load:
    """What was asked, and how long the answers took; memory in MiB."""

    client: httpx.Client
    service: MemoryService
    accepted: list[str] = field(default_factory=list)
    gets: list[float] = field(default_factory=list)
    creates: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    cancelled: int = 0

    def create(self) -> None:
        """Create the next job."""
        job_id = f"job_{len(self.accepted):06d}"
        started = time.perf_counter()
        self.client.post(_JOBS, json={"jobId": job_id, "trainingInput": TRAINING}).raise_for_status()
        self.creates.append(time.perf_counter() - started)
        self.accepted.append(job_id)

    def cancel(self) -> None:
        """Cancel the oldest job that is not yet."""
        self.client.post(f"{_JOBS}/{self.accepted[self.cancelled]}:cancel", json={}).raise_for_status()
        self.cancelled += 1

    def get(self, turn: int) -> None:
        """Get one of the jobs; in many turns, all."""
        job_id = self.accepted[turn * 7919 % len(self.accepted)]
        started = time.perf_counter()
        self.client.get(f"{_JOBS}/{job_id}").raise_for_status()
        self.gets.append(time.perf_counter() - started)

    def look(self) -> None:
        """Note memory, and how many jobs run."""
        self.resident.append(self.service.process.memory_info().rss / _MIB)
        self.running.append(int(_metric(self.client, "training_jobs", state="RUNNING")))


def measure() -> list[Figure]:
    """Return iterations, answers, losses and memory."""
    with (
        memory_service(run_seconds=10**6, side_by_side=2 * RUNNING) as service,
        service.client() as client,
    ):
        load = _Load(client, service)
        _fill(load)
        before = _iterations(client)
        load.creates.clear()
        with core_share(service.process) as share:
            _run(load)
        return [*_of_loop(before, _iterations(client)), *_of_load(load, share.percent)]


def _fill(load: _Load) -> None:
    """Create jobs until so many run."""
    for _ in range(RUNNING):
        load.create()
    deadline = time.perf_counter() + _PATIENCE_SECONDS
    while not load.running or load.running[-1] < RUNNING * 0.98:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{load.running[-1]} jobs run after {_PATIENCE_SECONDS:.0f} s")
        time.sleep(1)
        load.look()
    load.running.clear()


def _run(load: _Load) -> None:
    for second in range(SECONDS):
        started = time.perf_counter()
        for _ in range(NEW_PER_SECOND):
            load.create()
            load.cancel()
        for turn in range(GETS_PER_SECOND):
            load.get(second * GETS_PER_SECOND + turn)
        load.look()
        time.sleep(max(started + 1 - time.perf_counter(), 0))


def _iterations(client: httpx.Client) -> list[float]:
    """Return how many iterations there were, and how many took longer than each of ``_LONG``."""
    name = "training_loop_step_seconds"
    count = _metric(client, f"{name}_count")
    return [count, *(count - _metric(client, f"{name}_bucket", le=str(seconds)) for seconds in _LONG)]


def _of_loop(before: list[float], after: list[float]) -> list[Figure]:
    count, *long = (now - then for then, now in zip(before, after, strict=True))
    return [
        Figure(name="iterations", value=count, unit=""),
        *(
            Figure(
                name=f"iterations over {1000 * seconds:.0f} ms",
                value=round(100 * many / max(count, 1), 2),
                unit="%",
                limit=1.0 if seconds == MAX_ITERATION_SECONDS else None,
            )
            for seconds, many in zip(_LONG, long, strict=True)
        ),
    ]


def _of_load(load: _Load, percent: float) -> list[Figure]:
    lost = 0
    for place, job_id in enumerate(load.accepted):
        state = load.client.get(f"{_JOBS}/{job_id}").json().get("state", "UNKNOWN")
        lost += state not in (_CANCELLED if place < load.cancelled else _GOING_ON)
    gets, creates = ([1000 * each for each in samples] for samples in (load.gets, load.creates))
    return [
        Figure(name="running at once, at least", value=min(load.running), unit="jobs"),
        Figure(name="running at once, at most", value=max(load.running), unit="jobs"),
        percentile_figure("get, p50", gets, 50, unit="ms"),
        percentile_figure("get, p99", gets, 99, unit="ms", limit=1000 * MAX_GET_SECONDS),
        percentile_figure("create, p99", creates, 99, unit="ms"),
        Figure(name="lost", value=lost, unit="jobs", limit=0),
        Figure(name="resident, at most", value=round(max(load.resident), 1), unit="MiB", limit=MAX_MIB),
        Figure(name="service, of one core", value=round(percent, 1), unit="%"),
    ]


def _metric(client: httpx.Client, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    raise KeyError(f"/metrics has no {name} {labels}")


if __name__ == "__main__":
    print_report({"running": measure()})
