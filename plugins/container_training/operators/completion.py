"""The wait and the collection of a task that submits a job and returns its results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from container_training.hooks.training import TrainingHook
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.sensors.training import TrainingJobSensor
from container_training.work.results.job_report import JobReport
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobFailed
from training_api.states import JobState

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context


class JobCompletion:
    """
    What ``TrainingJobSensor`` and ``CollectTrainingResultsOperator`` do, within another task.

    :param task: a ``SubmitTrainingJobOperator``. The sensor defers it; its ``resume_execution`` calls
        ``resume``.
    :param is_reused: the job is an earlier one.
    """

    def __init__(self, task: Any, job_id: str, *, is_reused: bool) -> None:
        limit = {} if task.wait_timeout is None else {"timeout": task.wait_timeout}
        self._sensor = TrainingJobSensor(
            task_id="wait",
            job_id=job_id,
            deferrable=task.deferrable,
            max_cost=task.max_cost,
            training_conn_id=task.training_conn_id,
            execution_timeout=task.execution_timeout,
            **limit,
        )
        self._collector = CollectTrainingResultsOperator(
            task_id="collect",
            job_id=job_id,
            metrics_file=task.metrics_file,
            model_file=task.model_file,
            reused=is_reused,
            training_conn_id=task.training_conn_id,
            gcp_conn_id=task.gcp_conn_id,
            outlets=task.outlets,
        )

    @property
    def report(self) -> JobReport | None:
        """The job as it was seen last."""
        return self._collector.report or self._sensor.report

    @property
    def job(self) -> Job | None:
        """The job, once its results are collected."""
        return self._collector.job

    def execute(self, context: Context) -> dict[str, Any]:
        """Wait for the job, which may defer the task, and return its result."""
        with _another_attempt_may_help(self._sensor.hook):
            self._sensor.wait(context)
        return self._collector.collect(context)

    def resume(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> dict[str, Any]:
        """Return the result after the trigger has fired, or raise why there is none."""
        with _another_attempt_may_help(self._sensor.hook):
            self._sensor.resume_execution(next_method, next_kwargs, context)
        return self._collector.collect(context)

    def on_kill(self) -> None:
        """Do about the job what the sensor does. Only while a worker runs the task."""
        self._sensor.on_kill()

    def lineage(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Return what the results are; ``None``: none were collected."""
        return self._collector.get_openlineage_facets_on_complete(task_instance)


@contextmanager
def _another_attempt_may_help(hook: TrainingHook) -> Iterator[None]:
    """
    Leave a failed job to Airflow's retries if another attempt may end well.

    The job's service says whether. Each retry submits the next attempt. For a sensor alone such a job is
    final: it would wait for the same one.
    """
    try:
        yield
    except AirflowFailException as error:
        cause = error.__cause__
        if isinstance(cause, JobFailed) and cause.state == JobState.FAILED and _may_pass(hook, cause.reason):
            raise AirflowException(f"{error}; a retry submits the next attempt") from cause
        raise


def _may_pass(hook: TrainingHook, reason: str) -> bool:
    with hook:
        return hook.client.may_pass(reason)


def pushed_before(key: str, context: Context) -> Any:
    """Return what this try pushed under ``key`` before it was deferred."""
    ti = context["ti"]
    return ti.xcom_pull(task_ids=ti.task_id, key=key, map_indexes=ti.map_index)
