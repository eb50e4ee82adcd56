"""One step of a pipeline of several jobs: a job on an existing image, up to its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Unpack

from airflow.sdk import Asset, TaskGroup, XComArg

from container_training.operators.results import (
    BEST_TRIAL_ARGS,
    URIS,
    CollectTrainingResultsOperator,
)
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.job_description import StepArguments
from container_training.runtime.job_group import follow_task, given, job_group, own, wait_limits
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
    def result(self) -> Any:
        """The result of the job (``JobResult`` as JSON values)."""
        return XComArg(self.collect)

    @property
    def best_trial_args(self) -> Any:
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
    wait_timeout: timedelta | None = None,
    metrics_file: str | None = None,
    model_file: str | None = None,
    reuse_results: bool | str | None = None,
    reuse_from: Sequence[str] = (),
    outlets: Sequence[Asset] = (),
    training_conn_id: str | None = None,
    gcp_conn_id: str | None = None,
    default_args: Mapping[str, Any] | None = None,
    **job_fields: Unpack[StepArguments],
) -> TrainingStep:
    """
    Return the tasks submit, wait and collect of one job.

    Call it within a DAG. To resume after a failed step, clear its ``submit`` task with downstream tasks.
    Earlier steps are not run again: what they returned names images by digest and files by generation.

    :param group_id: id of the task group.
    :param image: image by digest: what ``PushImageOperator`` returned.
    :param max_cost: cancel the job once it has cost this much (``TrainingJobSensor``).
    :param wait_timeout: limit of the wait, and its only one; default: Airflow's ``[sensors] default_timeout``
        (7 days), and ``execution_timeout`` for each try.
    :param metrics_file: file of the metrics below the job's folder; default ``metrics.json``.
    :param model_file: file of the model below the job's folder; default ``model.joblib``.
    :param reuse_results: take the results of an earlier job of the same content instead of training again
        (``SubmitTrainingJobOperator``), if ``metrics_file`` and ``model_file``, or else ``result_files``, are
        still there.
    :param reuse_from: more connections whose earlier jobs will do; ``wait`` and ``collect`` then use the
        connection of the job.
    :param outlets: assets that stand for the results; their events say which model it is and how good.
    :param training_conn_id: connection of the training service; default ``training_default``.
    :param gcp_conn_id: Google connection of the object store; default ``google_cloud_default``.
    :param default_args: default arguments of the group's tasks; they win over those of the DAG.
    :param job_fields: arguments of ``SubmitTrainingJobOperator``, like ``args``, ``hyperparameters`` and
        ``worker_count``; and Airflow's arguments of all tasks, like ``queue``, ``pool``, ``retries`` and
        ``execution_timeout``.
    """
    connections = {"training_conn_id": training_conn_id, "gcp_conn_id": gcp_conn_id}
    with job_group(group_id, default_args, job_fields, **connections) as group:
        results = ResultArguments.of(
            group, metrics_file=metrics_file, model_file=model_file, reuse_results=reuse_results
        )
        submit = SubmitTrainingJobOperator(
            task_id="submit",
            image=image,
            **given(max_cost=max_cost),
            **{
                **results.of_submit(group, is_tuning=is_tuning(job_fields), elsewhere=reuse_from),
                **job_fields,
            },
        )
        follow_job(group, submit)
        wait = TrainingJobSensor(
            task_id="wait",
            job_id=output_of(submit),
            **given(max_cost=max_cost),
            **wait_limits(wait_timeout),
        )
        collect = CollectTrainingResultsOperator(
            task_id="collect",
            job_id=output_of(submit),
            outlets=list(outlets),
            **results.of_collect(submit),
        )
        submit >> wait >> collect
    return TrainingStep(group=group, submit=submit, wait=wait, collect=collect)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultArguments:
    """What ``submit`` and ``collect`` agree on: the job's files, and reuse of an earlier job."""

    metrics_file: str
    model_file: str
    reuse_results: bool | str

    @classmethod
    def of(cls, group: TaskGroup, **author: Any) -> ResultArguments:
        """Return the author's values; for ``None`` the defaults of ``group``, or our own."""
        ours = {"metrics_file": "metrics.json", "model_file": "model.joblib", "reuse_results": False}
        return cls(**{name: own(group, name, author[name], default) for name, default in ours.items()})

    def of_submit(
        self, group: TaskGroup, *, is_tuning: bool, elsewhere: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return those of ``submit``: an earlier job must have left what ``collect`` reads."""
        # A trial owes its report, not a metrics file.
        files = [self.model_file] if is_tuning else [self.metrics_file, self.model_file]
        reuse_from = {"reuse_from": list(elsewhere)} if elsewhere and self.reuse_results else {}
        result_files = own(group, "result_files", None, files)
        return {"reuse_results": self.reuse_results, "result_files": result_files, **reuse_from}

    def of_one_task(self, wait_timeout: timedelta | None, outlets: Sequence[Asset]) -> dict[str, Any]:
        """Return the arguments of ``submit`` if it also waits and collects."""
        limits = wait_limits(wait_timeout)
        if limits:
            limits["wait_timeout"] = limits.pop("timeout")
        return {
            "wait_for_completion": True,
            "metrics_file": self.metrics_file,
            "model_file": self.model_file,
            "outlets": list(outlets),
            **limits,
        }

    def of_collect(self, submit: SubmitTrainingJobOperator) -> dict[str, Any]:
        """Return the arguments of ``collect``."""
        return {
            "metrics_file": self.metrics_file,
            "model_file": self.model_file,
            "reused": output_of(submit, "reused") if self.reuse_results else False,
        }


def follow_job(group: TaskGroup, submit: SubmitTrainingJobOperator) -> None:
    """Have later tasks of ``group`` use the connection of the job, where it may be another."""
    if submit.reuse_from:
        follow_task(group, submit, may_say_none=True)


def is_tuning(fields: Mapping[str, Any]) -> bool:
    """
    Return whether a job has a search, as far as the DAG itself says it. Pure.

    Text may be a template.
    """
    own_form = fields.get("job")
    job = own_form if isinstance(own_form, Mapping) else {}
    training = job.get("trainingInput") or job.get("training_input") or {}
    return bool(fields.get("hyperparameters") or training.get("hyperparameters"))


def output_of(task: Any, key: str | None = None) -> str:
    """
    Return the task's output as a template value.

    Operators declare what it is after rendering.
    """
    return task.output[key] if key else task.output  # type: ignore[no-any-return]
