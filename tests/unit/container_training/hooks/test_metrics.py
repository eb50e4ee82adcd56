"""What tasks and the triggerer report through Airflow's metrics: names, and few tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.observability import stats as triggerer_stats
from airflow.sdk.observability import stats as task_stats

from container_training.hooks import metrics
from container_training.hooks.metrics import Submission


class Backend:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[Any, ...]] = []

    def incr(self, name: str, count: int = 1, *, tags: dict[str, str]) -> None:
        self.reports.append((name, count, tags))

    def gauge(self, name: str, value: float, *, tags: dict[str, str]) -> None:
        self.reports.append((name, value, tags))


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> dict[str, Backend]:
    """The metrics of tasks, and those of the triggerer."""
    backends = {"task": Backend(), "triggerer": Backend()}
    for module, backend in ((task_stats, backends["task"]), (triggerer_stats, backends["triggerer"])):
        for name in ("incr", "gauge"):
            monkeypatch.setattr(module, name, getattr(backend, name))
    return backends


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (
            lambda: metrics.count_submission(Submission.ADOPTED),
            ("container_training.submissions", 1, {"outcome": "adopted"}),
        ),
        (
            lambda: metrics.count_retry(TimeoutError("after 30 s at 127.0.0.1")),
            ("container_training.request_retries", 1, {"kind": "TimeoutError"}),
        ),
        (
            lambda: metrics.report_cost("train", 0.25, "EUR"),
            ("container_training.job_cost", 0.25, {"dag_id": "train", "currency": "EUR"}),
        ),
        (
            lambda: metrics.report_orphans("training_default", 0),
            ("container_training.orphans", 0, {"conn_id": "training_default"}),
        ),
    ],
)
def test_a_task_reports_through_its_own_backend(
    backends: dict[str, Backend], report: Callable[[], None], expected: tuple[Any, ...]
) -> None:
    report()

    assert backends["task"].reports == [expected]
    assert backends["triggerer"].reports == []


def test_the_triggerer_reports_through_its_own(backends: dict[str, Backend]) -> None:
    metrics.count_poll_error(ConnectionError("refused by 127.0.0.1"))

    assert backends["triggerer"].reports == [
        ("container_training.poll_errors", 1, {"kind": "ConnectionError"})
    ]
    assert backends["task"].reports == []


def test_without_a_backend_a_report_does_nothing() -> None:
    metrics.count_submission(Submission.SUBMITTED)
    metrics.count_retry(None)
    metrics.count_poll_error(TimeoutError())
