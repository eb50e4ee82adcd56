"""Buttons of a task that open its job, the job's log and the job's folder."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperatorLink


class _JobLink(BaseOperatorLink):
    """
    A button of a task that is about one job.

    Airflow asks for its address each time when a worker puts the task down - it ended, failed, or waits in
    the triggerer from now on - and keeps it as an XCom. A task that comes back from the triggerer to fail may
    know nothing of its job any more.
    """

    field = ""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address; an empty one, which makes no button, as long as no job was seen."""
        report = getattr(operator, "report", None)
        return (getattr(report, self.field) if report else "") or _kept(ti_key, self.xcom_key)


class JobPageLink(_JobLink):
    """Opens the job."""

    name = "Job"
    field = "page_url"


class JobLogLink(_JobLink):
    """Opens the log of the job."""

    name = "Job log"
    field = "log_url"


class JobFolderLink(_JobLink):
    """Opens the folder with the model and all else that the job writes."""

    name = "Model folder"
    field = "folder_url"


JOB_LINKS = (JobPageLink(), JobLogLink(), JobFolderLink())


def _kept(task_instance: Any, key: str) -> str:
    """
    Return what an earlier worker of the same try kept.

    In a task, Airflow passes the task instance itself.
    """
    pull = getattr(task_instance, "xcom_pull", None)
    if pull is None:
        return ""
    return str(
        pull(task_ids=task_instance.task_id, key=key, map_indexes=task_instance.map_index, default="") or ""
    )
