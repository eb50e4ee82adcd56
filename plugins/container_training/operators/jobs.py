"""Cancelling and listing jobs that other tasks, or other people, have submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.training import TrainingHook
from container_training.links.training import JOB_LINKS
from container_training.runtime.job_report import report_of
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.results.job_report import JobReport
from container_training.work.template_values import whole_number

if TYPE_CHECKING:
    from airflow.sdk import Context

#: What a page of ``jobs.list`` has at most.
_PAGE_SIZE = 100


class CancelTrainingJobOperator(TypedTask):
    """
    Cancels a job, whoever submitted it; leaves one that has ended as it is.

    The job may still be CANCELLING when the task ends; ``TrainingJobSensor`` waits for its end.

    :param job_id: the job. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :return: the job's state, ``CANCELLING`` or a final one.
    """

    template_fields: Sequence[str] = ("job_id", "training_conn_id")
    operator_extra_links = JOB_LINKS
    ui_color = "#f3e0e0"

    def __init__(
        self,
        *,
        job_id: str,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self.training_conn_id = training_conn_id
        #: The job as it was seen last, for extra links and callbacks.
        self.report: JobReport | None = None

    def execute(self, context: Context) -> str:
        """Cancel the job; return its state afterwards."""
        with TrainingHook(self.training_conn_id) as hook, final_unless_transient():
            job = hook.get_job(self.job_id)
            self.log.info("job %s is %s", self.job_id, job.state)
            if not (job.state and job.state.is_terminal):
                hook.cancel_job(self.job_id)
                job = hook.get_job(self.job_id)
                self.log.info("job %s is %s now", self.job_id, job.state)
            self.report = report_of(hook, job)
        return str(job.state)


class ListTrainingJobsOperator(TypedTask):
    """
    Returns the jobs of the connection's project that fit a filter, newest first.

    :param filter: as ``gcloud ai-platform jobs list --filter`` passes it to the API, like
        ``state=RUNNING AND labels.team=vision``; empty: all jobs. (templated)
    :param limit: maximum number of jobs; the log says if there are more. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :return: the jobs as the API has them: ``jobId``, ``state``, ``createTime``, ``trainingInput`` ...
    """

    template_fields: Sequence[str] = ("filter", "limit", "training_conn_id")
    ui_color = "#dbe9f6"

    def __init__(
        self,
        *,
        filter: str = "",  # noqa: A002  # the API's own word
        limit: int | str = 100,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.filter = filter
        self.limit = limit
        self.training_conn_id = training_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Read pages until there are enough jobs, or no more."""
        jobs: list[dict[str, Any]] = []
        with TrainingHook(self.training_conn_id) as hook, final_unless_transient():
            limit = whole_number("limit", self.limit)
            token = ""
            while len(jobs) < limit:
                page = hook.list_jobs(self.filter, min(_PAGE_SIZE, limit - len(jobs)), token)
                jobs += [job.to_wire() for job in page.jobs or ()]
                token = page.next_page_token or ""
                if not token:
                    break
        self.log.info("%d jobs%s", len(jobs), ", and there are more" if token else "")
        return jobs
