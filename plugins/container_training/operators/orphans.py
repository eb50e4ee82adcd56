"""Finds and cancels jobs that no task waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.airflow_api import AirflowApiHook
from container_training.hooks.failures import final_unless_transient
from container_training.hooks.metrics import report_orphans
from container_training.hooks.training import TrainingHook
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.orphans.orphans import DEFAULT_GRACE, Orphan, Verdict
from container_training.work.template_values import flag, seconds

if TYPE_CHECKING:
    from airflow.sdk import Context


class CancelOrphanJobsOperator(TypedTask):
    """
    Cancels the jobs of a connection's project that no task looks after any more.

    A job has a live owner while the task that submitted it, or a later task of the same run, is not over, or
    while any task waits for its id. Left alone are jobs that Airflow did not submit, jobs submitted with
    ``detached=True``, and jobs that this Airflow does not know as its own; the last are returned as
    ``UNKNOWN``.

    :param cancel: ``False`` lists the jobs and cancels none. (templated)
    :param grace: younger jobs are left alone, as a ``timedelta`` or in seconds. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :param airflow_conn_id: connection of Airflow's own REST API (:class:`AirflowApiHook`). (templated)
    :return: a list of ``job_id``, ``state``, ``verdict``, ``why`` and ``cancelled``.
    """

    template_fields: Sequence[str] = ("cancel", "grace", "training_conn_id", "airflow_conn_id")
    ui_color = "#f3e0e0"

    def __init__(
        self,
        *,
        cancel: bool | str = True,
        grace: timedelta | float | str = DEFAULT_GRACE,
        training_conn_id: str = TrainingHook.default_conn_name,
        airflow_conn_id: str = AirflowApiHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.cancel = cancel
        self.grace = grace
        self.training_conn_id = training_conn_id
        self.airflow_conn_id = airflow_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Look once; cancel what is found."""
        from container_training.work.orphans.search import OrphanSearch

        with (
            final_unless_transient(),
            TrainingHook(self.training_conn_id) as hook,
            AirflowApiHook(self.airflow_conn_id).get_conn() as airflow,
        ):
            grace, cancel = timedelta(seconds=seconds("grace", self.grace)), flag("cancel", self.cancel)
            found = OrphanSearch(airflow, grace=grace).find(hook.client)
            rows = [self._handle(orphan, hook, cancel=cancel) for orphan in found]
        self.log.info("%d jobs without a live owner", len(rows))
        report_orphans(self.training_conn_id, len(rows))
        return rows

    def _handle(self, orphan: Orphan, hook: TrainingHook, *, cancel: bool) -> dict[str, Any]:
        job_id = orphan.job.job_id or ""
        is_cancelled = orphan.verdict is Verdict.ORPHAN and cancel
        if is_cancelled:
            hook.cancel_job(job_id)
        self.log.warning(
            "job %s (%s): %s; %s",
            job_id,
            orphan.job.state,
            orphan.why,
            "cancelled" if is_cancelled else "left",
        )
        return {
            "job_id": job_id,
            "state": str(orphan.job.state),
            "verdict": orphan.verdict.value,
            "why": orphan.why,
            "cancelled": is_cancelled,
        }
