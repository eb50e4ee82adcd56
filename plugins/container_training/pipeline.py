"""The whole way from a Dockerfile to collected results, as one task group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import TaskGroup, XComArg

from container_training.core.waiting import Until
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.operators.image import BuildImageOperator, PushImageOperator, TestImageOperator
from container_training.operators.job_description import JOB_ID_MARK
from container_training.operators.registry_iam import GrantRegistryAccessOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

#: Errors that may pass are retried; those that will not fail a task at once, whatever is set here.
_RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=10)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPipeline:
    """The group and its tasks, in their order; hang other tasks before or after ``group``, or any task of it."""

    group: TaskGroup
    build: BuildImageOperator
    test: TestImageOperator
    push: PushImageOperator
    grant: GrantRegistryAccessOperator
    submit: SubmitTrainingJobOperator
    wait_until_scheduled: TrainingJobSensor
    wait_until_running: TrainingJobSensor
    wait_until_finished: TrainingJobSensor
    collect: CollectTrainingResultsOperator

    @property
    def result(self) -> XComArg:
        """The result of the job (``JobResult`` as JSON values), for tasks that come after."""
        return XComArg(self.collect)


def training_pipeline(
    *,
    context_dir: str | Path,
    image: str,
    group_id: str = "train",
    dockerfile: str = "Dockerfile",
    build_args: Mapping[str, str] | None = None,
    test_args: Sequence[str] = (),
    test_timeout: timedelta = timedelta(minutes=10),
    config_file: str | None = None,
    job: Mapping[str, Any] | str | None = None,
    wait_timeout: timedelta = timedelta(days=7),
    metrics_file: str = "metrics.json",
    model_file: str = "model.joblib",
    training_conn_id: str = TrainingHook.default_conn_name,
    gcp_conn_id: str = StorageHook.default_conn_name,
    default_args: Mapping[str, Any] | None = None,
    **job_fields: Any,
) -> TrainingPipeline:
    """
    Return the tasks build, test, push, grant, submit, wait_until_scheduled, wait_until_running, wait_until_finished, collect.

    Call it within a DAG. The job is described once, by a job file, by ``job`` in the API's own form and by ``job_fields``, the
    later ones overriding the earlier ones; its image is the one that was built, by digest, and its job folder is
    ``<job_bucket of the connection>/<job id>`` unless one of these gives it.

    :param context_dir: folder with the Dockerfile.
    :param image: name under which the image is pushed, ``HOST/PROJECT/NAME``; the tag is derived from the content.
    :param test_args: arguments of the local test run; make it short.
    :param config_file: path of the job file, from the folder of the DAG's file.
    :param job_fields: fields of ``SubmitTrainingJobOperator``: ``args``, ``job_dir``, ``labels``, ``master_type``, ...
    :param wait_timeout: limit of each of the three waits.
    """
    # The service's own folder rule: the connection knows where results go, the job's id keeps attempts apart.
    bucket = f"{{{{ conn.get('{training_conn_id}').extra_dejson.get('job_bucket', '') }}}}"
    job_fields.setdefault("default_job_dir", f"{bucket}/{JOB_ID_MARK}")
    with TaskGroup(group_id=group_id, default_args={**_RETRIES, **(default_args or {})}) as group:  # type: ignore[arg-type]
        build = BuildImageOperator(
            task_id="build",
            context_dir=str(context_dir),
            image=image,
            dockerfile=dockerfile,
            build_args=dict(build_args or {}),
        )
        test = TestImageOperator(
            task_id="test", image=_output(build), args=list(test_args), timeout=test_timeout
        )
        push = PushImageOperator(task_id="push", image=_output(build))
        grant = GrantRegistryAccessOperator(
            task_id="grant", image=_output(push), training_conn_id=training_conn_id
        )
        submit = SubmitTrainingJobOperator(
            task_id="submit",
            config_file=config_file,
            job=job,
            image=_output(push),
            training_conn_id=training_conn_id,
            **job_fields,
        )

        def wait(task_id: str, until: Until) -> TrainingJobSensor:
            return TrainingJobSensor(
                task_id=task_id,
                job_id=_output(submit),
                until=until,
                timeout=wait_timeout,
                training_conn_id=training_conn_id,
            )

        scheduled = wait("wait_until_scheduled", Until.LEFT_QUEUED)
        running = wait("wait_until_running", Until.LEFT_PREPARING)
        finished = wait("wait_until_finished", Until.FINISHED)
        collect = CollectTrainingResultsOperator(
            task_id="collect",
            job_id=_output(submit),
            metrics_file=metrics_file,
            model_file=model_file,
            training_conn_id=training_conn_id,
            gcp_conn_id=gcp_conn_id,
        )
        build >> test >> push >> grant >> submit >> scheduled >> running >> finished >> collect
    return TrainingPipeline(
        group=group,
        build=build,
        test=test,
        push=push,
        grant=grant,
        submit=submit,
        wait_until_scheduled=scheduled,
        wait_until_running=running,
        wait_until_finished=finished,
        collect=collect,
    )


def _output(task: Any) -> str:
    """Return the task's output as a template value; operators declare what it will be once rendered."""
    return task.output  # type: ignore[no-any-return]
