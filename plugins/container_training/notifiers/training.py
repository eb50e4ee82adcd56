"""Tells people, by a webhook, what came of a task's job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx
from airflow.sdk import BaseHook, BaseNotifier

from container_training.callbacks import job_report
from container_training.hooks.service_address import bearer_headers, endpoint_of, network_of
from container_training.work.results.job_report import JobReport
from training_api.errors import TransportError

if TYPE_CHECKING:
    from airflow.sdk import Context

_ANSWER_SECONDS = 10.0


class TrainingJobNotifier(BaseNotifier):
    """
    Posts a job's id, state, reason and links to a webhook, as JSON ``{"text": ...}``.

    Slack, Mattermost and Google Chat take this form. Give it to ``on_success_callback``,
    ``on_failure_callback`` or ``on_retry_callback`` of a task that is about one job, or of ``default_args``;
    a task without a job posts nothing. A webhook that refuses does not change the task's end; the log says
    so.

    :param webhook_conn_id: connection of any type with the webhook's URL as its host, and, if it wants one, a
        bearer token as its password. The extras ``verify``, ``client_certificate``, ``client_key`` and
        ``proxy`` are those of a training connection. (templated)
    """

    template_fields: Sequence[str] = ("webhook_conn_id",)

    def __init__(self, *, webhook_conn_id: str) -> None:
        super().__init__()
        self.webhook_conn_id = webhook_conn_id

    def notify(self, context: Context) -> None:
        """
        Post what the task knows of its job.

        :raises TransportError: the webhook did not take it; Airflow logs this.
        """
        job = job_report(context)
        if job is None:
            return
        connection = BaseHook.get_connection(self.webhook_conn_id)
        url, transport = endpoint_of(connection), network_of(connection).transport(endpoint_of(connection))
        try:
            with httpx.Client(transport=transport, timeout=_ANSWER_SECONDS) as client:
                answer = client.post(url, json={"text": message(job)}, headers=bearer_headers(connection))
        except httpx.HTTPError as error:
            # The URL of a webhook is a secret: no message has it.
            raise TransportError(
                f"the webhook of connection {self.webhook_conn_id!r} did not answer: {error}"
            ) from None
        if answer.is_error:
            raise TransportError(
                f"the webhook of connection {self.webhook_conn_id!r} answered {answer.status_code}"
            )


def message(job: JobReport) -> str:
    """Return the text about ``job``: one line for what happened, one for each link. Pure."""
    lines = [f"Training job {job.job_id} is {job.state or 'in an unknown state'}"]
    if job.reason:
        lines[0] += f": {job.reason}"
    links = {"Job": job.page_url, "Log": job.log_url, "Model folder": job.folder_url}
    return "\n".join([*lines, *(f"{name}: {url}" for name, url in links.items() if url)])
