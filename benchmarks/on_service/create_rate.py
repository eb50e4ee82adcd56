"""
Measure whether the service takes 200 creates a second, and keeps them and its memory.

The load lasts half a minute. No job may be lost.

The service is a process with SQLite and an engine in memory, on which a container runs a tenth of a second.
Jobs come at fixed moments, whether or not earlier ones were answered. Memory is the process's resident set,
sampled every half second from the start of the run until its last job has ended, against the median of the
samples right before it; the service has by then done the same for a few seconds (the warm-up).
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

import psutil

from benchmarks.report import Figure, percentile_figure, print_report
from benchmarks.support.memory_service import IMAGE, MemoryService, memory_service

PER_SECOND = 200
SECONDS = 30.0
WARM_UP_SECONDS = 5.0
MAX_GROWTH_PERCENT = 20.0
_CLIENTS = 8
_SAMPLE_SECONDS = 0.5
_PATIENCE_SECONDS = 240.0
_MIB = 2**20
_PATH = "/v1/projects/bench/jobs"


@dataclass(slots=True)
class _Run:
    """
    What the clients saw: answer times, and the ids that were answered with 200.

    The seconds of each answer count from the moment at which its request was due.
    """

    seconds: list[float] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    took: float = 0.0


def measure() -> list[Figure]:
    """Return rate, latency, losses and memory of one run."""
    with memory_service(run_seconds=0.1) as service:
        warm = _send(service, "warm", WARM_UP_SECONDS)
        _until_ended(service)
        with _sampled(service.process) as before:
            time.sleep(5 * _SAMPLE_SECONDS)
        with _sampled(service.process) as during:
            run = _send(service, "job", SECONDS)
            sent = time.perf_counter()
            _until_ended(service)
            drained = time.perf_counter() - sent
        states = _states(service)
    lost = sum(states.get(job_id) != "SUCCEEDED" for job_id in warm.accepted + run.accepted)
    base = statistics.median(before)
    growth = 100 * (max(during) / base - 1)
    milliseconds = [1000 * seconds for seconds in run.seconds]
    return [
        Figure(name="creates answered", value=round(len(run.accepted) / run.took, 1), unit="/s"),
        Figure(name="behind the rate asked", value=_behind(run), unit="%", limit=1.0),
        Figure(name="creates refused", value=len(run.refused), unit="", limit=0),
        Figure(name="jobs lost or not SUCCEEDED", value=lost, unit="", limit=0),
        percentile_figure("create, from its due moment, p50", milliseconds, 50, unit="ms"),
        percentile_figure("create, from its due moment, p99", milliseconds, 99, unit="ms"),
        Figure(name="all jobs ended after the last create", value=round(drained, 1), unit="s"),
        Figure(name="resident before", value=round(base / _MIB, 1), unit="MiB"),
        Figure(name="resident at most", value=round(max(during) / _MIB, 1), unit="MiB"),
        Figure(name="resident grew by", value=round(growth, 1), unit="%", limit=MAX_GROWTH_PERCENT),
    ]


def _behind(run: _Run) -> float:
    return round(max(0.0, 100 * (1 - len(run.accepted) / run.took / PER_SECOND)), 2)


def _send(service: MemoryService, prefix: str, seconds: float) -> _Run:
    """Send ``PER_SECOND`` creates a second, spread over a few connections."""
    run = _Run()
    total = int(PER_SECOND * seconds)
    started = time.perf_counter()

    def client(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        for place in range(first, total, _CLIENTS):
            due = started + place / PER_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            job_id = f"{prefix}_{place}"
            body = {"jobId": job_id, "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}
            connection.request("POST", _PATH, json.dumps(body), {"content-type": "application/json"})
            with connection.getresponse() as response:
                response.read()
            run.seconds.append(time.perf_counter() - due)
            run.accepted.append(job_id) if response.status == 200 else run.refused.append(response.status)
        connection.close()

    with ThreadPoolExecutor(_CLIENTS) as pool:
        futures: list[Future[None]] = [pool.submit(client, first) for first in range(_CLIENTS)]
        for future in futures:
            future.result()
    # The last create is due one interval before the end of the stretch.
    run.took = max(time.perf_counter() - started, total / PER_SECOND)
    return run


def _until_ended(service: MemoryService) -> None:
    query = {"filter": "NOT (state=SUCCEEDED OR state=FAILED OR state=CANCELLED)", "pageSize": "1"}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with service.client() as api:
        while api.get(_PATH, params=query).raise_for_status().json():
            if time.monotonic() > deadline:
                raise RuntimeError(f"jobs have not ended {_PATIENCE_SECONDS:.0f} s after the last create")
            time.sleep(_SAMPLE_SECONDS)


def _states(service: MemoryService) -> dict[str, str]:
    """Return the state of every job, page by page."""
    found: dict[str, str] = {}
    token = ""
    with service.client() as api:
        while True:
            page = api.get(_PATH, params={"pageSize": "100", "pageToken": token}).raise_for_status().json()
            found |= {job["jobId"]: job["state"] for job in page.get("jobs", [])}
            token = page.get("nextPageToken", "")
            if not token:
                return found


@contextmanager
def _sampled(process: psutil.Process) -> Iterator[list[int]]:
    """Yield a list that grows by the process's resident bytes while the block runs."""
    samples: list[int] = []
    done = Event()

    def sample() -> None:
        while not done.is_set():
            samples.append(process.memory_info().rss)
            done.wait(_SAMPLE_SECONDS)

    thread = Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    print_report({"create rate": measure()})
