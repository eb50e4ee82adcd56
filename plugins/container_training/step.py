"""One step of a pipeline of several jobs: a job on an existing image, up to its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup, XComArg

from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.operators.results import (
    BEST_TRIAL_ARGS,
    URIS,
    CollectTrainingResultsOperator,
)
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.job_group import job_group, own_folder
from container_training.sensors.training import TrainingJobSensor


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedJob:
    """
    A group of tasks around one job, whose results it collects.

    :param collect: the task that returns the result; perhaps ``submit`` itself.
    """

    group: TaskGroup
    submit: SubmitTrainingJobOperator
    collect: CollectTrainingResultsOperator | SubmitTrainingJobOperator

    @property
    def result(self) -> XComArg:
        """The result of the job (``JobResult`` as JSON values)."""
        return XComArg(self.collect)

    @property
    def best_trial_args(self) -> XComArg:
        """The arguments of a tuning job's best trial, for ``args`` of a job that trains it in full."""
        return XComArg(self.collect, key=BEST_TRIAL_ARGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep(CollectedJob):
    """The group and its tasks, in their order."""

    wait: TrainingJobSensor

    def file(self, name: str) -> str:
        """
        Return a template for the address, with its generation, of a file that the job left.

        The generation pins the content. The template orders no tasks: put the group before those that use it
        (``one.group >> other.group``).

        :param name: path below the job's folder.
        """
        return file_of(self.collect.task_id, name)


def file_of(task_id: str, name: str) -> str:
    """
    Return a template for the address, with its generation, of a file that a job left. Pure.

    :param task_id: the task that collected the job's results.
    :param name: path below the job's folder.
    """
    return f"{{{{ ti.xcom_pull(task_ids={task_id!r}, key={URIS!r})[{name!r}] }}}}"


def training_step(
    group_id: str,
    *,
    image: Any,
    max_cost: float | str | None = None,
    wait_timeout: timedelta = timedelta(days=7),
    metrics_file: str = "metrics.json",
    model_file: str = "model.joblib",
    training_conn_id: str = TrainingHook.default_conn_name,
    gcp_conn_id: str = StorageHook.default_conn_name,
    default_args: Mapping[str, Any] | None = None,
    **job_fields: Any,
) -> TrainingStep:
    """
    Return the tasks submit, wait and collect of one job.

    Call it within a DAG. To resume after a failed step, clear its ``submit`` task with downstream tasks.
    Earlier steps are not run again: what they returned names images by digest and files by generation.

    :param group_id: id of the task group.
    :param image: image by digest: what ``PushImageOperator`` returned.
    :param max_cost: cancel the job once it has cost this much (``TrainingJobSensor``).
    :param wait_timeout: limit of the wait.
    :param metrics_file: file of the metrics below the job's folder.
    :param model_file: file of the model below the job's folder.
    :param training_conn_id: connection of the training service.
    :param gcp_conn_id: Google connection of the object store.
    :param default_args: default arguments of the group's tasks.
    :param job_fields: arguments of ``SubmitTrainingJobOperator``: ``args``, ``command``, ``hyperparameters``,
        ``worker_count`` ...
    """
    job_fields.setdefault("default_job_dir", own_folder(training_conn_id))
    with job_group(group_id, default_args) as group:
        submit = SubmitTrainingJobOperator(
            task_id="submit",
            image=image,
            max_cost=max_cost,
            training_conn_id=training_conn_id,
            **job_fields,
        )
        wait = TrainingJobSensor(
            task_id="wait",
            job_id=output_of(submit),
            timeout=wait_timeout,
            max_cost=max_cost,
            training_conn_id=training_conn_id,
        )
        collect = CollectTrainingResultsOperator(
            task_id="collect",
            job_id=output_of(submit),
            metrics_file=metrics_file,
            model_file=model_file,
            training_conn_id=training_conn_id,
            gcp_conn_id=gcp_conn_id,
        )
        submit >> wait >> collect
    return TrainingStep(group=group, submit=submit, wait=wait, collect=collect)


def output_of(task: Any, key: str | None = None) -> str:
    """
    Return the task's output as a template value.

    Operators declare what it is after rendering.
    """
    return task.output[key] if key else task.output  # type: ignore[no-any-return]
