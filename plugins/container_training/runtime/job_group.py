"""What the groups of tasks around jobs share: retries, and a job's default folder."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup

from container_training.work.submission.job_attempt import JOB_ID_MARK

#: Errors that may pass are retried; those that will not fail a task at once, whatever is set here.
RETRIES: Mapping[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=10)}


def job_group(group_id: str, default_args: Mapping[str, Any] | None) -> TaskGroup:
    """
    Return a group with retries; enter it within a DAG.

    ``default_args`` override them.
    """
    return TaskGroup(group_id=group_id, default_args={**RETRIES, **(default_args or {})})  # type: ignore[arg-type]


def job_bucket(training_conn_id: str) -> str:
    """Return a template for the connection's job folder. Pure."""
    return f"{{{{ conn.get('{training_conn_id}').extra_dejson.get('job_bucket', '') }}}}"


def own_folder(training_conn_id: str) -> str:
    """Return a template for a folder of the job's own in the connection's job folder. Pure."""
    return f"{job_bucket(training_conn_id)}/{JOB_ID_MARK}"
