"""
What does the fleet page cost with 10,000 jobs of a month in the store?

The service runs as a separate process on the memory engine. This program does what Airflow's API server does
for the page: it keeps the ledger of jobs and computes the report of each window.
``python -m benchmarks.on_service.fleet_report``
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil

from benchmarks.report import Figure, median_figure, print_report
from benchmarks.support.core_share import core_share
from benchmarks.support.memory_service import MemoryService, memory_service
from benchmarks.support.seeded_jobs import fill_with_jobs
from benchmarks.support.stored_jobs import TRAINING
from container_training.dashboard.service_side.fleet_jobs import Ledger
from container_training.dashboard.service_side.fleet_report import BY_DAG, WINDOWS, fleet_report
from training_api.clients.fleet import OpsClient
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.promised_room import capacity_from

STORED = 10_000
MAX_ANSWER_SECONDS = 1.0
MAX_SERVICE_PERCENT = 10.0
_ROUNDS = 5
_FOLLOW_SECONDS = 20
_PROJECT = "bench"
_PRICES = PriceList(
    source="prices",
    per_second={"n1-standard-4": 1e-4, "n1-standard-8": 2e-4, "n1-highmem-8": 3e-4, "n1-highcpu-16": 4e-4},
)


def measure() -> list[Figure]:
    """Return how long the first answer and later ones take, and what the service does meanwhile."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        fill_with_jobs(url, _PROJECT, STORED)
        with (
            memory_service(run_seconds=10**6, database_url=url) as service,
            OpsClient(service.url, _PROJECT, timeout_seconds=60) as client,
        ):
            return [*_first_answer(client), *_later_answers(client), *_followed(client, service)]


def _first_answer(client: OpsClient) -> list[Figure]:
    """Of an API server that has just started: all jobs are asked for."""
    client.fleet()
    walls, own = [], []
    for _ in range(_ROUNDS):
        gc.collect()
        wall, cpu = _timed(lambda: _answer(client, Ledger(client.search_jobs), "30d"))
        walls.append(wall)
        own.append(cpu)
    return [
        median_figure("first answer", walls, limit=MAX_ANSWER_SECONDS),
        median_figure("first answer, processor time of the API server", own),
    ]


def _later_answers(client: OpsClient) -> list[Figure]:
    """
    Time the answers of an API server that has the jobs.

    It requests what has changed, and computes all figures anew.
    """
    figures = []
    clock = [0.0]
    ledger = Ledger(client.search_jobs, clock=lambda: clock[0])
    for window in WINDOWS:
        _answer(client, ledger, window)
        walls = []
        for _ in range(_ROUNDS):
            clock[0] += 30  # what was asked for does not serve any more
            walls.append(_timed(lambda: _answer(client, ledger, window))[0])  # noqa: B023  # called at once
        figures.append(median_figure(f"later answer, {window}", walls, limit=MAX_ANSWER_SECONDS))
    return figures


def _followed(client: OpsClient, service: MemoryService) -> list[Figure]:
    """
    Return the share of a core that the service needs for open pages.

    It does not depend on the number of pages.

    Their API server asks for the version each second; and as a job is created each second, for now, and for
    what has changed as often as the ledger allows.
    """
    ledger = Ledger(client.search_jobs)
    ledger.snapshot()
    with service.client() as jobs:
        alone = _percent(service.process, lambda turn: _create(jobs, f"alone_{turn}"))

        def follow(turn: int) -> None:
            _create(jobs, f"followed_{turn}")
            client.version()
            client.fleet()
            ledger.snapshot()

        followed = _percent(service.process, follow)
    name = "service, for open pages and a new job a second"
    value = round(followed - alone, 2)
    return [Figure(name=name, value=value, unit="% of a core", limit=MAX_SERVICE_PERCENT)]


def _answer(client: OpsClient, ledger: Ledger, window: str) -> None:
    fleet = client.fleet()
    report = fleet_report(
        ledger.snapshot().jobs,
        WINDOWS[window],
        time.time(),
        capacity=capacity_from(fleet.capacity, fleet.largest) if fleet.capacity else None,
        prices=_PRICES,
        by=BY_DAG,
        dag_name=str,
    )
    if window == "30d" and report["jobs"] < STORED * 0.9:
        raise AssertionError(f"the report is about {report['jobs']} jobs")


def _create(client: httpx.Client, job_id: str) -> None:
    body = {"jobId": job_id, "trainingInput": TRAINING}
    client.post(f"/v1/projects/{_PROJECT}/jobs", json=body).raise_for_status()


def _percent(process: psutil.Process, act: Callable[[int], None]) -> float:
    """Return the share of a core that ``process`` needs while ``act`` is done each second."""
    started = time.perf_counter()
    with core_share(process) as share:
        for turn in range(_FOLLOW_SECONDS):
            act(turn)
            time.sleep(max(started + turn + 1 - time.perf_counter(), 0))
    return share.percent


def _timed(act: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds of ``act``, and its processor time in this process."""
    started, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - started, time.process_time() - cpu


if __name__ == "__main__":
    print_report({"fleet page": measure()})
