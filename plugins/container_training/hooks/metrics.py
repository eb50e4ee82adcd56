"""
What tasks and triggers report through Airflow's own metrics.

StatsD or OpenTelemetry, ``[metrics]`` of airflow.cfg.

Tags are bounded: kinds of errors, outcomes, connections, DAGs. Without a backend each call does nothing.
"""

from __future__ import annotations

from enum import StrEnum

from container_training.airflow_internals.tasks import task_metrics, triggerer_metrics

PREFIX = "container_training"


class Submission(StrEnum):
    """What became of a task's wish for a job."""

    SUBMITTED = "submitted"
    ADOPTED = "adopted"  #: its own job of an earlier try was taken
    REUSED = "reused"  #: the results of an earlier job of the same content were taken


def count_submission(outcome: Submission) -> None:
    """Count a task that has its job; in tasks."""
    task_metrics().incr(f"{PREFIX}.submissions", tags={"outcome": outcome.value})


def count_retry(error: BaseException | None) -> None:
    """Count a question that the service did not answer and that is asked again; in tasks."""
    task_metrics().incr(f"{PREFIX}.request_retries", tags={"kind": type(error).__name__})


def count_poll_error(error: Exception) -> None:
    """
    Count a failed poll of the waiting jobs.

    It happens in the triggerer, which has its own metrics.
    """
    triggerer_metrics().incr(f"{PREFIX}.poll_errors", tags={"kind": type(error).__name__})


def report_cost(dag_id: str, amount: float, currency: str) -> None:
    """Report what the newest job of a DAG has cost; in tasks."""
    task_metrics().gauge(f"{PREFIX}.job_cost", amount, tags={"dag_id": dag_id, "currency": currency})


def report_orphans(conn_id: str, count: int) -> None:
    """Report how many jobs of a connection have no live owner; in tasks."""
    task_metrics().gauge(f"{PREFIX}.orphans", count, tags={"conn_id": conn_id})
