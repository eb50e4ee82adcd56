"""
What a task knows of its job, for callbacks.

For ``on_success_callback``, ``on_failure_callback`` and ``on_retry_callback``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from container_training.work.results.job_report import JobReport


def job_report(context: Mapping[str, Any]) -> JobReport | None:
    """
    Return the job of a callback's task: its id, last state, reason and addresses.

    The reason of a task that failed for another reason than its job is the exception's text.

    :param context: what Airflow calls the callback with.
    :return: ``None`` for a task that is not about one job, that has not seen it, or that Airflow speaks of
        without running it, as after the death of its worker.
    """
    report = getattr(getattr(context.get("ti"), "task", None), "report", None)
    if not isinstance(report, JobReport):
        return None
    error = context.get("exception")
    return replace(report, reason=str(error)) if error and not report.reason else report
