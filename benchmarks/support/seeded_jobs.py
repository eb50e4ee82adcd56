"""
A month of a busy team's jobs, written straight into a service's database.

The dashboard is measured and viewed with them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.support.memory_service import IMAGE
from benchmarks.support.stored_jobs import write_rows
from training_api.causes import Cause
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_service.model.reasons import Reason
from training_service.store.database import to_us
from training_service.store.jobs.job_rows import new_values

DAYS = 30
#: DAG id, machine, workers, team, model, typical seconds of a run, share of failures.
_KINDS: tuple[tuple[str, str, int, str, str, float, float], ...] = (
    ("retrain_digits", "n1-standard-4", 0, "vision", "digits", 600, 0.04),
    ("train_digits", "n1-standard-4", 0, "vision", "", 240, 0.08),
    ("train_pytorch_ddp", "n1-standard-8", 3, "language", "", 1500, 0.12),
    ("retrain_churn", "n1-highmem-8", 0, "growth", "churn", 900, 0.06),
    ("train_xgboost", "n1-highcpu-16", 0, "growth", "", 180, 0.03),
    ("train_tensorflow_ps", "n1-standard-8", 4, "ads", "clicks", 1200, 0.1),
    ("multi_step_pipeline", "n1-standard-16", 0, "ads", "", 480, 0.05),
    ("", "n1-standard-4", 0, "research", "", 300, 0.2),
)
_WEIGHTS = (4, 5, 2, 2, 6, 1, 3, 2)
_PROGRAM_ERROR = Reason(
    cause=Cause.PROGRAM_ERROR,
    message="The replica master 0 exited with a non-zero status of 1.",
    replica="master 0",
    exit_code=1,
)
_FAILURES = (
    Reason(
        cause=Cause.OUT_OF_MEMORY,
        message="The replica master 0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
        replica="master 0",
        exit_code=137,
    ),
    _PROGRAM_ERROR,
    _PROGRAM_ERROR,
    Reason(
        cause=Cause.IMAGE,
        message=f"The image {IMAGE} of the replica master 0 could not be pulled: manifest unknown",
        replica="master 0",
    ),
    Reason(cause=Cause.REPLICA_LOST, message="The replica master 0 was lost.", replica="master 0"),
)
_CANCELLED = Reason(cause=Cause.CANCELLED, message="The job was cancelled on request.")


def fill_with_jobs(
    database_url: str, project: str, count: int, now: datetime | None = None, seed: int = 7
) -> None:
    """
    Write ``count`` jobs of the last ``DAYS`` days, some of which have not ended.

    The same arguments give the same jobs.
    """
    write_rows(database_url, seeded_rows(project, count, now or datetime.now(UTC), seed))


def seeded_rows(project: str, count: int, now: datetime, seed: int) -> Iterator[dict[str, Any]]:
    """Yield rows of the table of jobs, oldest first. Pure."""
    chance = random.Random(seed)  # noqa: S311  # the same jobs each time
    moments = sorted(_moment(chance, now) for _ in range(count))
    for place, created in enumerate(moments):
        yield _row(chance, project, place, created, now)


def _moment(chance: random.Random, now: datetime) -> datetime:
    """By day more than by night, and more lately than a month ago."""
    while True:
        age = timedelta(days=DAYS * (1 - chance.random() ** 0.7))
        moment = now - age
        if chance.random() < (1.0 if 7 <= moment.hour < 19 else 0.35):
            return moment


def _row(chance: random.Random, project: str, place: int, created: datetime, now: datetime) -> dict[str, Any]:
    dag, machine, workers, team, model, seconds, failing = chance.choices(_KINDS, _WEIGHTS)[0]
    queued = chance.expovariate(1 / 30) + (chance.expovariate(1 / 900) if chance.random() < 0.15 else 0)
    prepared = created + timedelta(seconds=queued)
    running = prepared + timedelta(seconds=chance.lognormvariate(2.2, 0.8))
    ended = running + timedelta(seconds=seconds * chance.lognormvariate(0, 0.5))
    draw = chance.random()
    state = "FAILED" if draw < failing else "CANCELLED" if draw < failing + 0.02 else "SUCCEEDED"
    if model == "clicks" and now - created < timedelta(days=12):
        state = "FAILED"  # a model that nobody has noticed to grow old
    times: list[datetime | None] = [prepared, running, ended]
    for step, moment in enumerate((prepared, running, ended)):
        if moment > now:
            state = ("QUEUED", "PREPARING", "RUNNING")[step]
            times[step:] = [None] * (3 - step)
            break
    labels = {"team": team} | ({"model": model} if model else {})
    if dag:
        labels |= {
            "airflow-dag": dag,
            "airflow-task": "train",
            "airflow-run": f"scheduled__{created:%Y-%m-%dt%H-%M-%S}-00-00",
            "airflow-owner": f"{place:08x}",
            "airflow-request": f"{place:016x}",
        }
    job_id = f"{dag or 'by_hand'}_{place:06d}"
    training = _training(machine, workers)
    spec = job_spec_from_wire(project, Job(job_id=job_id, labels=labels, training_input=training))
    values = new_values(spec, training.to_wire(), to_us(created))
    reason = chance.choice(_FAILURES) if state == "FAILED" else _CANCELLED if state == "CANCELLED" else None
    return values | {
        "uid": f"{project[:8]}{place:08d}",
        "job_id": job_id,
        "state": state,
        "preparing_us": to_us(times[0]) if times[0] else None,
        "running_us": to_us(times[1]) if times[1] else None,
        "ended_us": to_us(times[2]) if times[2] else None,
        "error_message": reason.message if reason else "",
        "reason": reason.to_json() if reason else {},
    }


def _training(machine: str, workers: int) -> TrainingInput:
    custom: dict[str, Any] = {
        "scaleTier": "CUSTOM",
        "region": "us-central1",
        "masterType": machine,
        "masterConfig": {"imageUri": IMAGE},
    }
    if workers:
        custom |= {"workerType": machine, "workerCount": workers, "workerConfig": {"imageUri": IMAGE}}
    return TrainingInput.model_validate(custom)
