"""A challenger beside the champion: evaluated by jobs, compared, decided; as one task group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Unpack

from airflow.sdk import TaskGroup, XComArg

from container_training.operators.promotion import (
    CHAMPION,
    DecidePromotionOperator,
    PrepareEvaluationsOperator,
)
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.job_description import ComparedArguments, require_job_fields
from container_training.runtime.job_group import given, job_group, training_connection, wait_limits
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
    def decision(self) -> Any:
        """The decision (``Decision`` as JSON values)."""
        return XComArg(self.decide)


def compare_with_champion(
    *,
    challenger: Any,
    model_folder: str,
    command: Sequence[str] | str,
    args: Sequence[Any] | None = None,
    group_id: str = "compare",
    alpha: float | str | None = None,
    min_gain: float | str | None = None,
    min_accuracy: float | str | None = None,
    wait_timeout: timedelta | None = None,
    training_conn_id: str | None = None,
    gcp_conn_id: str | None = None,
    registry_conn_id: str | None = None,
    default_args: Mapping[str, Any] | None = None,
    **job_fields: Unpack[ComparedArguments],
) -> Comparison:
    """
    Return the tasks prepare, submit, wait and decide.

    Call it within a DAG. One job for each model evaluates it, in the image that trained it and with the same
    arguments: ``command`` and ``args``, then ``--model URI#GENERATION`` and ``--job-dir``. The job writes
    ``evaluation.json`` to its folder (``container_training/work/models/promotion.py``: :class:`Evaluation`).

    :param challenger: output of ``RegisterModelOperator``.
    :param model_folder: ``gs://`` folder of the model.
    :param command: entry point that evaluates, like ``["python", "evaluate.py"]``.
    :param args: arguments of both jobs; default: none.
    :param group_id: id of the task group.
    :param alpha: as for ``DecidePromotionOperator``; default 0.05.
    :param min_gain: as for ``DecidePromotionOperator``; default 0.
    :param min_accuracy: as for ``DecidePromotionOperator``; default 0.
    :param wait_timeout: limit of each wait, and its only one; default: one day, and ``execution_timeout`` for
        each try.
    :param training_conn_id: connection of the training service; default ``training_default``.
    :param gcp_conn_id: Google connection of the object store; default ``google_cloud_default``.
    :param registry_conn_id: connection of an MLflow server, which need not exist; default
        ``model_registry_default``.
    :param default_args: default arguments of the group's tasks; they win over those of the DAG.
    :param job_fields: more arguments of ``SubmitTrainingJobOperator``, like ``labels`` and ``master_type``;
        and Airflow's arguments of all tasks, like ``queue``, ``pool``, ``retries`` and ``execution_timeout``.
    """
    connections = {
        "training_conn_id": training_conn_id,
        "gcp_conn_id": gcp_conn_id,
        "registry_conn_id": registry_conn_id,
    }
    require_job_fields("compare_with_champion", job_fields, SubmitTrainingJobOperator.template_fields)
    with job_group(group_id, default_args, job_fields, **connections) as group:
        group.default_args.setdefault("timeout", timedelta(days=1).total_seconds())
        # A task that is to be mapped has only what it is given itself, until it is mapped.
        connection = {"training_conn_id": training_connection(group)}
        prepare = PrepareEvaluationsOperator(
            task_id="prepare", challenger=challenger, model_folder=model_folder, **given(args=args)
        )
        submit = SubmitTrainingJobOperator.partial(
            task_id="submit",
            command=command,
            **{"default_job_dir": group.default_args["default_job_dir"], **connection, **job_fields},
        ).expand_kwargs(XComArg(prepare))
        wait = TrainingJobSensor.partial(task_id="wait", **connection, **wait_limits(wait_timeout)).expand(
            job_id=XComArg(submit)
        )
        decide = DecidePromotionOperator(
            task_id="decide",
            model_folder=model_folder,
            challenger=challenger,
            champion=XComArg(prepare, key=CHAMPION),
            job_ids=XComArg(submit),
            **given(alpha=alpha, min_gain=min_gain, min_accuracy=min_accuracy),
        )
        wait >> decide
    return Comparison(group=group, prepare=prepare, submit=submit, wait=wait, decide=decide)
