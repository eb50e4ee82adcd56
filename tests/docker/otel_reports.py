"""
Reports each of the project's metrics once through Airflow's OpenTelemetry backends.

In a separate process, because the backends live as long as the process.
"""

from __future__ import annotations

import sys


def main(process: str) -> None:
    """Report what tasks, or the triggerer, report; Airflow sends it when the process ends."""
    from container_training.hooks import metrics

    if process == "triggerer":
        from airflow.observability import stats as triggerer_stats
        from airflow.observability.metrics.otel_logger import get_otel_logger as triggerer_backend

        triggerer_stats.initialize(factory=triggerer_backend, export_legacy_names=False)
        metrics.count_poll_error(TimeoutError())
        return
    from airflow.sdk.observability import stats as task_stats
    from airflow.sdk.observability.metrics.otel_logger import get_otel_logger as task_backend

    task_stats.initialize(factory=task_backend, export_legacy_names=False)
    metrics.count_submission(metrics.Submission.SUBMITTED)
    metrics.count_retry(TimeoutError())
    metrics.report_cost("retrain_digits", 0.25, "EUR")
    metrics.report_orphans("training_default", 0)


if __name__ == "__main__":
    main(sys.argv[1])
