"""The job of a task of Airflow: the one that it submits, waits for, collects or plots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from container_training.airflow_internals.database import rendered_fields, xcom_value
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID
from training_api.job.job_id import TaskKey

#: Under which key ``SubmitTrainingJobOperator`` keeps the job as it was submitted.
_JOB_KEY = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJob:
    """A job, and the connection of its service."""

    job_id: str
    conn_id: str


def job_of_task(key: TaskKey, session: Session) -> TaskJob | None:
    """
    Return the job of the task's newest try, or ``None``: it has none, or did not come so far.

    A task that submits has pushed its job; one that has the id as an argument has it among its rendered
    fields.
    """
    fields = rendered_fields(key, session)
    job_id = _pushed_job_id(key, session) or _text(fields, "job_id")
    if not job_id:
        return None
    return TaskJob(job_id=job_id, conn_id=_text(fields, "training_conn_id") or DEFAULT_CONN_ID)


def _pushed_job_id(key: TaskKey, session: Session) -> str:
    found = xcom_value(key, _JOB_KEY, session)
    if isinstance(found, str):  # what the task API stores may be the text of the JSON
        try:
            found = json.loads(found)
        except ValueError:
            return ""
    # Any task may push something under this name: a job has an id and an input.
    if not isinstance(found, dict) or "trainingInput" not in found:
        return ""
    return _text(found, "jobId")


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) and value != "None" else ""
