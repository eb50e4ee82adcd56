"""A message about a job, posted to a webhook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest

from container_training.notifiers.training import TrainingJobNotifier, message
from container_training.work.results.job_report import JobReport
from tests.support.loopback_server import serving
from training_api.errors import TransportError

REPORT = JobReport(
    job_id="digits_1",
    state="FAILED",
    reason="The replica master 0 ran out-of-memory.",
    page_url="https://airflow/training/jobs/digits_1",
    log_url="https://training/logs/digits_1",
)
TEXT = (
    "Training job digits_1 is FAILED: The replica master 0 ran out-of-memory.\n"
    "Job: https://airflow/training/jobs/digits_1\nLog: https://training/logs/digits_1"
)


@contextmanager
def webhook(monkeypatch: pytest.MonkeyPatch, status: int = 200) -> Iterator[list[Any]]:
    """Yield what is posted to the webhook of the connection ``chat``: authorization and body."""
    posted: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posted.append((self.path, self.headers["Authorization"], body))
            self.send_response(status)
            self.end_headers()

    with serving(Handler) as url:
        connection = {"conn_type": "http", "host": f"{url}/secret", "password": "token"}
        monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(connection))
        yield posted


def context(report: JobReport | None, **more: Any) -> Any:
    return {"ti": SimpleNamespace(task=SimpleNamespace(report=report)), **more}


def test_a_failed_job_is_told_with_its_reason_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook(monkeypatch) as posted:
        TrainingJobNotifier(webhook_conn_id="chat")(context(REPORT))

    assert posted == [("/secret", "Bearer token", {"text": TEXT})]


def test_a_task_without_a_job_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook(monkeypatch) as posted:
        TrainingJobNotifier(webhook_conn_id="chat")(context(None))

    assert posted == []


def test_a_webhook_that_refuses_is_named_without_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook(monkeypatch, status=404), pytest.raises(TransportError) as failed:
        TrainingJobNotifier(webhook_conn_id="chat")(context(REPORT))

    assert str(failed.value) == "the webhook of connection 'chat' answered 404"


def test_a_webhook_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps({"conn_type": "http", "host": "http://127.0.0.1:9"}))

    with pytest.raises(TransportError, match="the webhook of connection 'chat' did not answer"):
        TrainingJobNotifier(webhook_conn_id="chat")(context(REPORT))


def test_a_job_without_links_has_none() -> None:
    assert message(JobReport(job_id="a")) == "Training job a is in an unknown state"
