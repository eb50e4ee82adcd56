"""Where people find a job, and how they cancel it: pages and a command of each API. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.vertex_jobs.address import CUSTOM_JOBS, TUNING_JOBS, VertexAddress

_GOOGLE = ".googleapis.com"
_CONSOLE = "https://console.cloud.google.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """
    Which job of a service.

    :param job_id: of a job that exists: its characters, and those of a project, need no quoting in a URL.
    :param region: empty: not known, so that it is the first of the connection.
    :param is_study: whether the job is a search.
    """

    job_id: str
    region: str = ""
    is_study: bool = False

    @classmethod
    def of(cls, job: Job) -> JobPlace:
        """Return the place of a job that was just seen."""
        training = job.training_input or TrainingInput()
        return cls(
            job_id=job.job_id or "",
            region=training.region or "",
            is_study=training.hyperparameters is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """
    The dashboard of this Airflow.

    :param airflow_url: where people reach Airflow, without a ``/`` at its end; empty: not known here.
    :param conn_id: connection of the training service, quoted as a URL wants it.
    """

    airflow_url: str
    conn_id: str

    def page_url(self, job: JobPlace) -> str:
        """Return the page of a job; the one place that says which it is."""
        return f"{self.airflow_url}/training/jobs/{job.job_id}?conn_id={self.conn_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPages:
    """
    The addresses of one job.

    :param page_url: for people; empty: there is none.
    :param record_url: the job's own resource at the service.
    """

    page_url: str
    record_url: str
    log_url: str


def training_pages(endpoint: str, project: str, job: JobPlace, dashboard: Dashboard) -> JobPages:
    """Return the pages of a job of AI Platform Training, or of a service of one's own."""
    is_google = endpoint.endswith(_GOOGLE)
    return JobPages(
        page_url=dashboard.page_url(job),
        record_url=f"{endpoint}/v1/projects/{project}/jobs/{job.job_id}",
        log_url=_google_log(project, job) if is_google else _own_log(endpoint, project, job),
    )


def vertex_pages(address: VertexAddress, job: JobPlace, dashboard: Dashboard) -> JobPages:
    """
    Return the pages of a job of Vertex AI.

    Source of the console's address: ``_dashboard_uri`` of google-cloud-aiplatform 2.7.0, for both kinds of
    jobs.

    :param dashboard: for a service of one's own; a link to a job of Google's leads to Google's console.
    """
    region = job.region or address.regions[0]
    endpoint, project = address.of_region(region), address.project
    collection = TUNING_JOBS if job.is_study else CUSTOM_JOBS
    record_url = f"{endpoint}/v1/projects/{project}/locations/{region}/{collection}/{job.job_id}"
    if endpoint.endswith(_GOOGLE):
        path = f"agent-platform/locations/{region}/training/{job.job_id}"
        return JobPages(
            page_url=f"{_CONSOLE}/{path}?project={project}",
            record_url=record_url,
            log_url=_google_log(project, job),
        )
    return JobPages(
        page_url=dashboard.page_url(job),
        record_url=record_url,
        log_url=_own_log(address.of_api("logging", address.logging_endpoint), project, job),
    )


def training_cancel_command(project: str, job: JobPlace) -> str:
    """Return the command that cancels a job of AI Platform Training."""
    return f"gcloud ai-platform jobs cancel {job.job_id} --project {project}"


def vertex_cancel_command(address: VertexAddress, job: JobPlace) -> str:
    """Return the command that cancels a job of Vertex AI."""
    kind = "hp-tuning-jobs" if job.is_study else "custom-jobs"
    region = job.region or address.regions[0]
    return f"gcloud ai {kind} cancel {job.job_id} --region {region} --project {address.project}"


def _google_log(project: str, job: JobPlace) -> str:
    query = f"resource.labels.job_id%3D%22{job.job_id}%22"
    return f"{_CONSOLE}/logs/query;query={query}?project={project}"


def _own_log(endpoint: str, project: str, job: JobPlace) -> str:
    return f"{endpoint}/logs/projects/{project}/jobs/{job.job_id}"
