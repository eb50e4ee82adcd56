"""What a task tells people about its job: in extra links, and in callbacks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """
    One job as a task saw it last.

    :param state: last state seen; ``None``: the job was never seen.
    :param reason: why it FAILED or was CANCELLED, in the service's words, or why it could not be asked for;
        else empty.
    :param job_dir: ``gs://`` folder of its results; empty where it has none, or was never seen.
    :param page_url: page of the job in Airflow's dashboard, or in Google's console; empty where there is
        none. Without Airflow's own address (``[api] base_url``), that in the dashboard is a path.
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
