"""What a task tells people about its job: in extra links, and in callbacks."""

from __future__ import annotations

from dataclasses import dataclass

_GOOGLE = ".googleapis.com"
_CONSOLE = "https://console.cloud.google.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """
    One job as a task saw it last.

    :param state: last state seen; ``None``: the job was never seen.
    :param reason: why it FAILED or was CANCELLED, in the service's words, or why it could not be asked for;
        else empty.
    :param job_dir: ``gs://`` folder of its results; empty where it has none, or was never seen.
    :param page_url: page of the job in Airflow's dashboard; empty where there is no such job. Without
        Airflow's own address (``[api] base_url``) it is a path.
    :param record_url: the job's resource at the service; empty where there is no such job.
    :param log_url: its log; empty where there is no such job.
    :param folder_url: page that lists ``job_dir``; empty without one.
    """

    job_id: str
    state: str | None = None
    reason: str = ""
    job_dir: str = ""
    page_url: str = ""
    record_url: str = ""
    log_url: str = ""
    folder_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAddress:
    """
    Where a job is.

    :param endpoint: URL of the training service.
    :param conn_id: connection of the training service, quoted as a URL wants it.
    :param airflow_url: where people reach Airflow, without a ``/`` at its end; empty: not known here.
    :param job_id: of a job that exists: its characters, and those of a project, need no quoting in a URL.
    """

    endpoint: str
    project: str
    job_id: str
    conn_id: str
    airflow_url: str = ""


def job_page_url(job: JobAddress) -> str:
    """Return the page of a job in the dashboard; the one place that says which it is. Pure."""
    return f"{job.airflow_url}/training/jobs/{job.job_id}?conn_id={job.conn_id}"


def job_record_url(job: JobAddress) -> str:
    """Return the job's own resource, which every service of this API has. Pure."""
    return f"{job.endpoint}/v1/projects/{job.project}/jobs/{job.job_id}"


def job_log_url(job: JobAddress) -> str:
    """Return the page with a job's log: the service's, or Google's own. Pure."""
    if job.endpoint.endswith(_GOOGLE):
        query = f"resource.labels.job_id%3D%22{job.job_id}%22"
        return f"{_CONSOLE}/logs/query;query={query}?project={job.project}"
    return f"{job.endpoint}/logs/projects/{job.project}/jobs/{job.job_id}"
