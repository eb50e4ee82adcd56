"""What a task says of its job to people: in Airflow's extra links, and in the callbacks of its end."""

from __future__ import annotations

from dataclasses import dataclass

_GOOGLE = ".googleapis.com"
_CONSOLE = "https://console.cloud.google.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """
    One job as a task saw it last.

    :param state: last state seen; ``None``: the job was never seen.
    :param reason: why it FAILED or was CANCELLED, in the service's words, or why it could not be asked for; else empty.
    :param job_dir: ``gs://`` folder of its results; empty where it has none, or was never seen.
    :param page_url: page of the job; empty where there is no such job.
    :param log_url: its log; empty where there is no such job.
    :param folder_url: page that lists ``job_dir``; empty without one.
    """

    job_id: str
    state: str | None = None
    reason: str = ""
    job_dir: str = ""
    page_url: str = ""
    log_url: str = ""
    folder_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAddress:
    """
    Where a job is.

    :param endpoint: URL of the training service.
    :param conn_id: connection of the training service.
    :param job_id: of a job that exists: its characters, and those of a project, need no quoting in a URL.
    """

    endpoint: str
    project: str
    job_id: str
    conn_id: str


def job_page_url(job: JobAddress) -> str:
    """
    Return the page of a job; the one place that says which it is. Pure.

    It is the job's own resource, which every service of this API has.
    """
    return f"{job.endpoint}/v1/projects/{job.project}/jobs/{job.job_id}"


def job_log_url(job: JobAddress) -> str:
    """Return the page with a job's log: the service's, or Google's own. Pure."""
    if job.endpoint.endswith(_GOOGLE):
        query = f"resource.labels.job_id%3D%22{job.job_id}%22"
        return f"{_CONSOLE}/logs/query;query={query}?project={job.project}"
    return f"{job.endpoint}/logs/projects/{job.project}/jobs/{job.job_id}"
