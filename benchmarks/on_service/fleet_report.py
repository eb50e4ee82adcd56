"""
What does the fleet page cost with 10,000 jobs of a month in the store?

The service runs as a separate process on the memory engine. This program asks it what Airflow's API server
asks for the page.
``python -m benchmarks.on_service.fleet_report``
"""

from __future__ import annotations

import json
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
from container_training.dashboard.routes.fleet import WINDOWS
from training_api.clients.fleet import OpsClient
from training_api.fleet.history import FleetHistory, FleetHistoryRequest

STORED = 10_000
MAX_ANSWER_SECONDS = 1.0
MAX_ANSWER_KB = 100.0
MAX_SERVICE_PERCENT = 10.0
_ROUNDS = 5
_FOLLOW_SECONDS = 20
#: How often an API server asks for the past of a day while something changes.
_HISTORY_SECONDS = 5
_PROJECT = "bench"
_PRICES = {"n1-standard-4": 1e-4, "n1-standard-8": 2e-4, "n1-highmem-8": 3e-4, "n1-highcpu-16": 4e-4}


def measure() -> list[Figure]:
    """Return how long and how large answers are, and what the service does meanwhile."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        fill_with_jobs(url, _PROJECT, STORED)
        with (
            memory_service(run_seconds=10**6, database_url=url) as service,
            OpsClient(service.url, _PROJECT, timeout_seconds=60) as client,
        ):
            return [*_answers(client), *_followed(client, service)]


def _answers(client: OpsClient) -> list[Figure]:
    """Measure the past of each window. No answer has a row for each job."""
    figures = []
    for name in WINDOWS:
        walls = []
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            history = _history(client, name)
            walls.append(time.perf_counter() - started)
        kilobytes = len(json.dumps(history.to_wire())) / 1000
        figures += [
            median_figure(f"answer, {name}", walls, limit=MAX_ANSWER_SECONDS),
            Figure(
                name=f"size of the answer, {name}", value=round(kilobytes, 1), unit="kB", limit=MAX_ANSWER_KB
            ),
        ]
    if history.jobs < STORED * 0.9:
        raise AssertionError(f"the report is about {history.jobs} jobs")
    return figures


def _followed(client: OpsClient, service: MemoryService) -> list[Figure]:
    """
    Return the share of a core that the service needs for open pages.

    It does not depend on the number of pages that show the same.

    Their API server asks for the version each second; and as a job is created each second, for now, and for
    the past as often as it does that.
    """
    with service.client() as jobs:
        alone = _percent(service.process, lambda turn: _create(jobs, f"alone_{turn}"))

        def follow(turn: int) -> None:
            _create(jobs, f"followed_{turn}")
            client.version()
            client.fleet()
            if turn % _HISTORY_SECONDS == 0:
                _history(client, "24h")

        followed = _percent(service.process, follow)
    name = "service, for open pages and a new job a second"
    value = round(followed - alone, 2)
    return [Figure(name=name, value=value, unit="% of a core", limit=MAX_SERVICE_PERCENT)]


def _history(client: OpsClient, name: str) -> FleetHistory:
    window = WINDOWS[name]
    return client.history(
        FleetHistoryRequest(
            window_seconds=window.seconds,
            step_seconds=window.step_seconds,
            cost_step_seconds=window.cost_seconds,
            prices=_PRICES,
        )
    )


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


if __name__ == "__main__":
    print_report({"fleet page": measure()})
