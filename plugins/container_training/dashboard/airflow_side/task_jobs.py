"""The job of a task of Airflow: the one that it submits, waits for, collects or plots."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from container_training.airflow_internals.database import (
    airflow_database,
    find_xcom,
    read_xcom,
    rendered_fields,
)
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID
from training_api.job.job_id import TaskKey

#: Under which key ``SubmitTrainingJobOperator`` keeps the job as it was submitted.
_JOB_KEY = "job"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJob:
    """A job, and the connection of its service."""

    job_id: str
    conn_id: str


def job_of_task(key: TaskKey) -> TaskJob | None:
    """
    Return the job of the task's newest try, or ``None``: it has none, or did not come so far.

    A task that submits has pushed its job; one that has the id as an argument has it among its rendered
    fields.
    """
    with airflow_database() as session:
        fields = rendered_fields(key, session)
        pushed = find_xcom(key, _JOB_KEY, session)
    if not isinstance(fields, dict):
        fields = {}
    job_id = (pushed and _pushed_job_id(pushed)) or _text(fields, "job_id")
    if not job_id:
        return None
    return TaskJob(job_id=job_id, conn_id=_text(fields, "training_conn_id") or DEFAULT_CONN_ID)


def _pushed_job_id(pushed: Any) -> str:
    """Return the id of the job in an XCom, read through its backend if it is a reference."""
    if job_id := _job_id_in(pushed.value):
        return job_id
    try:
        return _job_id_in(read_xcom(pushed))
    except Exception:  # whatever a custom backend raises; the task's arguments may still name the job
        _log.warning("the XCom backend cannot read %r", pushed, exc_info=True)
        return ""


def _job_id_in(value: Any) -> str:
    if isinstance(value, str):  # what the task API stores may be the text of the JSON
        try:
            value = json.loads(value)
        except ValueError:
            return ""
    # Any task may push something under this name: a job has an id and an input.
    if not isinstance(value, dict) or "trainingInput" not in value:
        return ""
    return _text(value, "jobId")


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) and value != "None" else ""
