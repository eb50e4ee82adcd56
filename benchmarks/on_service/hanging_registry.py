"""
Measure how much later jobs run while 40 others pull from a registry that never answers.

The service is a process with SQLite and an engine in memory, asked over HTTP. The same jobs of a healthy
registry are submitted without the 40 and with them, one after the other.
"""

from __future__ import annotations

import statistics
import time

from benchmarks.report import Figure, median_figure, print_report
from benchmarks.support.bench_jobs import new_job, submit, wait_until
from benchmarks.support.memory_service import HANGING_IMAGE, IMAGE, memory_service
from training_api.clients.training import TrainingClient
from training_api.states import JobState

PULLING = 40
ROUNDS = 30
MAX_RATIO = 1.5
_PROJECT = "bench"


def measure() -> list[Figure]:
    """Return the seconds from submit to RUNNING, without and with a registry that hangs."""
    with (
        memory_service(run_seconds=0.1, side_by_side=2 * PULLING) as service,
        TrainingClient(service.url, _PROJECT) as client,
    ):
        _times(client)  # the first requests load modules
        without = _times(client)
        for job_id in [submit(client, new_job(HANGING_IMAGE)) for _ in range(PULLING)]:
            wait_until(client, job_id, lambda job: job.state is JobState.PREPARING)
        beside = _times(client)
    ratio = statistics.median(beside) / statistics.median(without)
    return [
        median_figure("submit to RUNNING", without),
        median_figure(f"beside {PULLING} that hang", beside),
        Figure(name="ratio", value=round(ratio, 2), unit="x", limit=MAX_RATIO),
    ]


def _times(client: TrainingClient) -> list[float]:
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        job_id = submit(client, new_job(IMAGE))
        wait_until(client, job_id, lambda job: job.start_time is not None, poll_seconds=0.002)
        seconds.append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    print_report({"hanging registry": measure()})
