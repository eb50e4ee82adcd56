"""A challenger beside the champion: evaluated by jobs, compared, decided; as one task group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup, XComArg

from container_training.hooks.model_registry import ModelRegistryHook
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.operators.promotion import (
    CHAMPION,
    DecidePromotionOperator,
    PrepareEvaluationsOperator,
)
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.job_group import job_group, own_folder
from container_training.sensors.training import TrainingJobSensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    The group and its tasks, in their order.

    ``submit`` and ``wait`` are mapped: one job for each model.
    """

    group: TaskGroup
    prepare: PrepareEvaluationsOperator
    submit: Any
    wait: Any
    decide: DecidePromotionOperator

    @property
    def decision(self) -> XComArg:
        """The decision (``Decision`` as JSON values)."""
        return XComArg(self.decide)


def compare_with_champion(
    *,
    challenger: Any,
    model_folder: str,
    command: Sequence[str],
    args: Sequence[Any] = (),
    group_id: str = "compare",
    alpha: float | str = 0.05,
    min_gain: float | str = 0.0,
    min_accuracy: float | str = 0.0,
    wait_timeout: timedelta = timedelta(days=1),
    training_conn_id: str = TrainingHook.default_conn_name,
    gcp_conn_id: str = StorageHook.default_conn_name,
    registry_conn_id: str = ModelRegistryHook.default_conn_name,
    default_args: Mapping[str, Any] | None = None,
    **job_fields: Any,
) -> Comparison:
    """
    Return the tasks prepare, submit, wait and decide.

    Call it within a DAG. One job for each model evaluates it, in the image that trained it and with the same
    arguments: ``command`` and ``args``, then ``--model URI#GENERATION`` and ``--job-dir``. The job writes
    ``evaluation.json`` to its folder (``container_training/work/models/promotion.py``: :class:`Evaluation`).

    :param challenger: output of ``RegisterModelOperator``.
    :param model_folder: ``gs://`` folder of the model.
    :param command: entry point that evaluates, like ``["python", "evaluate.py"]``.
    :param args: arguments of both jobs.
    :param group_id: id of the task group.
    :param alpha: as for ``DecidePromotionOperator``.
    :param min_gain: as for ``DecidePromotionOperator``.
    :param min_accuracy: as for ``DecidePromotionOperator``.
    :param wait_timeout: limit of each wait.
    :param training_conn_id: connection of the training service.
    :param gcp_conn_id: Google connection of the object store.
    :param registry_conn_id: connection of an MLflow server; it need not exist.
    :param default_args: default arguments of the group's tasks.
    :param job_fields: more arguments of ``SubmitTrainingJobOperator``: ``labels``, ``master_type`` ...
    """
    registry = {
        "model_folder": model_folder,
        "gcp_conn_id": gcp_conn_id,
        "registry_conn_id": registry_conn_id,
    }
    job_fields.setdefault("default_job_dir", own_folder(training_conn_id))
    with job_group(group_id, default_args) as group:
        prepare = PrepareEvaluationsOperator(task_id="prepare", challenger=challenger, args=args, **registry)
        submit = SubmitTrainingJobOperator.partial(
            task_id="submit", command=list(command), training_conn_id=training_conn_id, **job_fields
        ).expand_kwargs(XComArg(prepare))
        wait = TrainingJobSensor.partial(
            task_id="wait",
            timeout=wait_timeout.total_seconds(),
            training_conn_id=training_conn_id,
        ).expand(job_id=XComArg(submit))
        decide = DecidePromotionOperator(
            task_id="decide",
            challenger=challenger,
            champion=XComArg(prepare, key=CHAMPION),  # type: ignore[arg-type]
            job_ids=XComArg(submit),  # type: ignore[arg-type]
            alpha=alpha,
            min_gain=min_gain,
            min_accuracy=min_accuracy,
            training_conn_id=training_conn_id,
            **registry,
        )
        wait >> decide
    return Comparison(group=group, prepare=prepare, submit=submit, wait=wait, decide=decide)
