"""
What ten trials with 200 reports a second each cost the service, on three machines.

The trainers report by cloudml-hypertune as published. Beside the service's use of a core while they report,
the same while ten trials run that report nothing.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from benchmarks.on_stack.tuning import search
from benchmarks.report import Figure
from benchmarks.support.bench_jobs import new_job, submit, wait_for_success, wait_until
from benchmarks.support.core_share import core_share
from benchmarks.support.memory_service import TAG
from benchmarks.support.three_machines import ThreeMachines
from tests.support.bed.swarm_service import Service
from training_api.dialects.ml_v1.resources import Job, SearchAlgorithm
from training_api.states import JobState

TRIALS, PER_SECOND = 10, 200
#: How long each trial reports, and how much of it is looked at, after the start of all.
_REPORT_SECONDS, _SECONDS = 45.0, 20.0
_LIMIT_PERCENT = 30.0
#: Reports ``rate`` times a second, however long a report takes, up to step ``count``.
_REPORTER = f"""
import sys, time, hypertune
rate, count = float(sys.argv[1]), int(sys.argv[2])
reporter = hypertune.HyperTune()
begun = time.monotonic()
for step in range(1, count + 1):
    reporter.report_hyperparameter_tuning_metric("{TAG}", step / count, step)
    time.sleep(max(0.0, begun + step / rate - time.monotonic()))
"""
_COUNT = """
SELECT count(*) FROM measurements JOIN jobs trial ON trial.uid = measurements.job_uid
JOIN jobs study ON study.uid = trial.study_uid WHERE study.job_id = ?
"""


def measure(machines: ThreeMachines) -> list[Figure]:
    """Return the figures of one tuning job, and of one whose trials are quiet."""
    quiet, _ = _use_of_core(machines, rate=1 / _REPORT_SECONDS, count=2)
    count = round(PER_SECOND * _REPORT_SECONDS)
    busy, (rate, stored) = _use_of_core(machines, rate=PER_SECOND, count=count)
    wanted = TRIALS * PER_SECOND
    # Trainers on two cores may not reach the rate, as the package writes a hundred lines for each report.
    at_rate = quiet + (busy - quiet) * wanted / rate
    return [
        Figure(name="reports stored a second", value=round(rate), unit=f"of {wanted:,}"),
        Figure(name="reports lost", value=TRIALS * count - stored, unit="", limit=0),
        _share("service while ten trials report nothing", quiet),
        _share("service while they report", busy, _LIMIT_PERCENT),
        _share(f"as much for each report, at {wanted:,} a second", at_rate, _LIMIT_PERCENT),
    ]


def _share(name: str, percent: float, limit: float | None = None) -> Figure:
    return Figure(name=name, value=round(percent, 1), unit="% of a core", limit=limit)


def _use_of_core(machines: ThreeMachines, rate: float, count: int) -> tuple[float, tuple[float, int]]:
    """
    Run ten trials, and look at the service for a time in which all of them run.

    :return: per cent of a core; reports that were stored in a second of that time, and at the end of the job.
    """
    client, service = machines.client, machines.service
    command = ["python3", "-c", _REPORTER, str(rate), str(count)]
    job = new_job(
        machines.image, command, hyperparameters=search(TRIALS, TRIALS, SearchAlgorithm.RANDOM_SEARCH)
    )
    job_id = submit(client, job)
    wait_until(client, job_id, _all_run, 0.1)
    before, started = _stored(service, job_id), time.perf_counter()
    with core_share(machines.process) as share:
        time.sleep(_SECONDS)
    seconds, after = time.perf_counter() - started, _stored(service, job_id)
    wait_for_success(client, job_id, 0.5)
    return share.percent, ((after - before) / seconds, _stored(service, job_id))


def _all_run(job: Job) -> bool:
    trials = (job.training_output and job.training_output.trials) or []
    return [trial.state for trial in trials] == [JobState.RUNNING] * TRIALS


def _stored(service: Service, job_id: str) -> int:
    with closing(sqlite3.connect(f"file:{service.database}?mode=ro", uri=True)) as database:
        return int(database.execute(_COUNT, (job_id,)).fetchone()[0])
