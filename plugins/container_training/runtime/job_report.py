"""What a connection says of a job: its report, with addresses for people."""

from __future__ import annotations

from dataclasses import replace

from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from container_training.hooks.storage import object_store_endpoint
from container_training.hooks.training import TrainingHook
from container_training.work.job_pages import JobPlace
from container_training.work.object_store import folder_url
from container_training.work.results.job_report import JobReport
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import TrainingError


def report_of(hook: TrainingHook, job: Job) -> JobReport:
    """Return the report of ``job``, just seen."""
    job_dir = (job.training_input and job.training_input.job_dir) or ""
    return make_report(
        hook, JobPlace.of(job), state=job.state, reason=job.error_message or "", job_dir=job_dir
    )


def make_report(
    hook: TrainingHook, job: JobPlace, *, state: str | None, reason: str, job_dir: str
) -> JobReport:
    """
    Return the report of a job that somebody else saw.

    It never fails: a task whose job ended well must not do so because its connection was removed meanwhile.

    :param state: ``None``: nobody saw it, so that it gets no addresses: they might lead nowhere.
    """
    report = JobReport(job_id=job.job_id, state=state and str(state), reason=reason, job_dir=job_dir)
    if state is None:
        return report
    try:
        pages = hook.pages(job, conf.get("api", "base_url", fallback="").rstrip("/"))
    except (AirflowNotFoundException, TrainingError) as error:
        hook.log.warning("the task has no links to its job: %s", error)
        return report
    return replace(
        report,
        page_url=pages.page_url,
        record_url=pages.record_url,
        log_url=pages.log_url,
        folder_url=folder_url(object_store_endpoint(), job_dir) if job_dir else "",
    )
