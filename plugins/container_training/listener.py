"""
Cancels the job of a wait that a person marks as failed before any triggerer has taken the wait over.

Airflow tells a trigger that its task was ended (``JobTrigger.on_kill``), but only one that runs: for a second or two after
a task is deferred none does, and the job would go on for nobody. The API server tells listeners, in every case.
Cancelling twice is harmless, so the two need not know of each other.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from airflow.listeners import hookimpl

_log = logging.getLogger(__name__)
#: Class names as Airflow's database has them.
_WAITS = frozenset({"TrainingJobSensor"})


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """Act on a task that was marked as failed by hand: only then the previous state is unknown."""
    if previous_state is not None or getattr(task_instance, "operator", None) not in _WAITS:
        return
    rendered = getattr(task_instance.rendered_task_instance_fields, "rendered_fields", None) or {}
    # Without fields the task never began, and so never waited. A template leaves text.
    if rendered.get("job_id") and str(rendered.get("cancel_on_kill", True)).lower() not in ("false", "0", ""):
        # On a thread of its own: the person's click must not wait for the training service.
        threading.Thread(
            target=cancel_job_of_run,
            args=(
                rendered["job_id"],
                rendered["training_conn_id"],
                task_instance.dag_id,
                task_instance.run_id,
            ),
            name="cancel-training-job",
        ).start()


def cancel_job_of_run(job_id: str, training_conn_id: str, dag_id: str, run_id: str) -> None:
    """Cancel ``job_id`` if this DAG run submitted it; what goes wrong is logged."""
    from airflow.sdk.exceptions import AirflowException

    from container_training.core.errors import TrainingError
    from container_training.core.intent import owner_within
    from container_training.hooks.training import TrainingHook

    hook = TrainingHook(training_conn_id)
    try:
        job = hook.get_job(job_id)
        if job.state and not job.state.is_terminal and owner_within(job, dag_id, run_id):
            hook.cancel_job(job_id)
            _log.info("job %s is being cancelled: its wait was marked as failed", job_id)
    except (TrainingError, AirflowException) as error:
        _log.error("job %s may go on, though its wait was marked as failed: %s", job_id, error)
