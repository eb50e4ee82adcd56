"""
Which DAG run submitted a job.

A job says so by labels, and labels have no capitals, no ``:`` and no ``+``. So Airflow's own database is
asked for the runs whose label would be that one; the job's id, of which twelve digits are a digest of the
exact task, decides between several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from container_training.airflow_internals.database import run_type_and_user, runs_with_labels, tasks_of_runs
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.views.views import Origin
from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.job.job_id import TaskKey, job_id_for, label_value
from training_api.job.labels import RUN_LABEL, TASK_LABEL


def find_origins(jobs: Sequence[JobRow], rights: Rights, session: Session) -> dict[str, Origin]:
    """
    Return the origin of each of ``jobs`` that has one: job id -> origin.

    Two queries, however many jobs. A job whose run is gone, or cannot be told from another one, keeps its
    DAG.
    """
    runs = _runs(jobs, rights, session)
    tasks = _tasks({run for found in runs.values() for run in found}, session)
    origins = {}
    for job in jobs:
        dags = rights.dags_of(job.labels)
        candidates = [
            key
            for dag_id in dags
            for run in runs.get((dag_id, job.labels.get(RUN_LABEL, "")), [])
            for key in tasks.get(run, [])
            if label_value(key.task_id) == job.labels.get(TASK_LABEL)
        ]
        origin = _choose(job, dags, candidates, runs)
        if origin is not None:
            origins[job.job_id] = origin
    return origins


def find_run(origin: Origin | None, session: Session) -> dict[str, str] | None:
    """
    Return how the run came about: ``type``, and ``user``, who had it made.

    ``None``: it is not known.
    """
    if origin is None or not origin.run_id:
        return None
    found = run_type_and_user(origin.dag_id, origin.run_id, session)
    return {"type": found[0], "user": found[1]} if found else None


def _choose(
    job: JobRow,
    dags: Sequence[str],
    candidates: Sequence[TaskKey],
    runs: Mapping[tuple[str, str], Sequence[tuple[str, str]]],
) -> Origin | None:
    exact = [key for key in candidates if _is_named_by(job.job_id, key)] or candidates
    if len(exact) == 1:
        (key,) = exact
        return Origin(dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id, map_index=key.map_index)
    of_run = {(key.dag_id, key.run_id) for key in exact} or {
        run for dag_id in dags for run in runs.get((dag_id, job.labels.get(RUN_LABEL, "")), [])
    }
    if len(of_run) == 1:
        ((dag_id, run_id),) = of_run
        return Origin(dag_id=dag_id, run_id=run_id)
    return Origin(dag_id=dags[0]) if len(dags) == 1 else None


def _is_named_by(job_id: str, key: TaskKey) -> bool:
    _, _, attempt = job_id.rpartition("_")
    return attempt.isdecimal() and job_id == job_id_for(key, int(attempt))


def _runs(
    jobs: Iterable[JobRow], rights: Rights, session: Session
) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return the runs that a pair of DAG id and label may mean."""
    wanted = {
        (dag_id, job.labels[RUN_LABEL])
        for job in jobs
        if RUN_LABEL in job.labels
        for dag_id in rights.dags_of(job.labels)
    }
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for dag_id, run_id in runs_with_labels(wanted, session):
        key = (dag_id, label_value(run_id))
        if key in wanted:
            found.setdefault(key, []).append((dag_id, run_id))
    return found


def _tasks(runs: set[tuple[str, str]], session: Session) -> dict[tuple[str, str], list[TaskKey]]:
    found: dict[tuple[str, str], list[TaskKey]] = {}
    for key in tasks_of_runs(runs, session):
        found.setdefault((key.dag_id, key.run_id), []).append(key)
    return found
