"""What can be a template, of every operator."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.image import PushImageOperator, TestImageOperator
from container_training.operators.preflight import PreflightOperator
from container_training.operators.registry_iam import (
    GrantRegistryAccessOperator,
    RevokeRegistryAccessOperator,
)
from container_training.sensors.training import TrainingJobSensor
from tests.support.fakes.fake_service import FakeService, make_job
from tests.support.public_operators import own_arguments, public_operators
from training_api.errors import InvalidArgument

OPERATORS = public_operators()
#: Arguments that are no templates, and why.
NOT_TEMPLATED = {
    ("TrainingJobSensor", "deferrable"): "whether a task is deferred is known before it runs",
    ("SubmitTrainingJobOperator", "deferrable"): "the same",
    ("CloudBuildImageOperator", "deferrable"): "the same",
    ("SubmitTrainingJobOperator", "wait_timeout"): "a limit is a number or a timedelta, as a sensor's",
    **{
        ("TrainingJobSensor", name): "an argument of Airflow's, which reads it unrendered"
        for name in ("poke_interval", "retries", "retry_delay")
    },
}
#: ``dry_run`` is a method of every operator of Airflow.
ATTRIBUTES = {"dry_run": "is_dry_run"}


def test_all_operators_are_found() -> None:
    assert set(OPERATORS) == {
        "BuildImageOperator",
        "BuildAndPushImageOperator",
        "CloudBuildImageOperator",
        "TestImageOperator",
        "PushImageOperator",
        "ImageBillOfMaterialsOperator",
        "GrantRegistryAccessOperator",
        "RevokeRegistryAccessOperator",
        "PreflightOperator",
        "PackageTrainerOperator",
        "ChooseServiceOperator",
        "EnsureRepositoryOperator",
        "SubmitTrainingJobOperator",
        "TrainingJobSensor",
        "CancelOrphanJobsOperator",
        "CancelTrainingJobOperator",
        "ListTrainingJobsOperator",
        "CollectTrainingResultsOperator",
        "PlanTrainingOperator",
        "PlotTrialsOperator",
        "SnapshotDataOperator",
        "ValidateDataOperator",
        "RegisterModelOperator",
        "PrepareEvaluationsOperator",
        "DecidePromotionOperator",
        "PromoteModelOperator",
        "RollbackModelOperator",
        "CleanUpModelsOperator",
    }


@pytest.mark.parametrize("name", OPERATORS)
def test_every_argument_is_a_template_or_there_is_a_reason(name: str) -> None:
    operator = OPERATORS[name]
    expected = {
        ATTRIBUTES.get(argument, argument)
        for argument in own_arguments(operator)
        if (name, argument) not in NOT_TEMPLATED
    }

    assert set(operator.template_fields) == expected
    assert len(operator.template_fields) == len(expected)


def test_every_reason_is_still_needed() -> None:
    assert [
        (name, argument) for name, argument in NOT_TEMPLATED if argument not in own_arguments(OPERATORS[name])
    ] == []


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_a_list_or_an_object_is_shown_as_json(name: str) -> None:
    operator = OPERATORS[name]
    shapes = ("Mapping", "Sequence")
    arguments = own_arguments(operator).items()

    structured = {
        argument for argument, given in arguments if any(shape in str(given.annotation) for shape in shapes)
    }
    shown = {field for field, renderer in operator.template_fields_renderers.items() if renderer == "json"}
    assert shown - {"grant"} == structured


@pytest.mark.parametrize("name", OPERATORS)
def test_a_path_stays_a_path(name: str) -> None:
    # Airflow would read a file in place of its name, and render its contents.
    # The task reads a job file as it is.
    assert tuple(OPERATORS[name].template_ext) == ()


NATIVE: list[tuple[Any, dict[str, Any]]] = [
    (
        TestImageOperator(
            task_id="t", image="h/i", timeout="{{ x }}", memory_bytes="{{ x }}", cpus="{{ none }}"
        ),
        {"timeout": 7, "memory_bytes": 7, "cpus": None},
    ),
    (
        PushImageOperator(task_id="t", image="h/i:1", attempts="{{ x }}"),
        {"attempts": 7, "image": "h/i:1"},
    ),
    (PreflightOperator(task_id="t", image="h/i", seconds="{{ x }}"), {"seconds": 7}),
    (GrantRegistryAccessOperator(task_id="t", image="h/p/i", dry_run="{{ yes }}"), {"is_dry_run": True}),
    (TrainingJobSensor(task_id="t", job_id="j_1", cancel_on_kill="{{ yes }}"), {"cancel_on_kill": True}),
]


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "text"])
@pytest.mark.parametrize(("task", "values"), NATIVE, ids=lambda value: type(value).__name__)
def test_templates_leave_values_or_their_text(task: Any, values: dict[str, Any], is_native: bool) -> None:
    dag = DAG("d", schedule=None, render_template_as_native_obj=is_native)
    rendered = task.prepare_for_execution()
    rendered.dag = dag

    rendered.render_template_fields({"x": 7, "yes": True, "none": None})

    expected = values if is_native else {name: str(value) for name, value in values.items()}
    assert {name: getattr(rendered, name) for name in values} == expected


@pytest.mark.parametrize(("text", "is_cancelled_on_kill"), [("False", False), ("True", True)])
def test_a_flag_that_is_text_is_read_as_one(
    service: FakeService, context: Any, text: str, is_cancelled_on_kill: bool
) -> None:
    from airflow.sdk.exceptions import TaskDeferred

    service.add(make_job())
    task = TrainingJobSensor(
        task_id="t", job_id="digits_1", until="{{ u }}", stream_logs="{{ s }}", cancel_on_kill="{{ c }}"
    )
    task.render_template_fields({"u": "left_preparing", "s": "", "c": text})

    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context)

    arguments = deferred.value.trigger.serialize()[1]
    assert arguments["cancel_on_kill"] is is_cancelled_on_kill
    assert (arguments["until"], arguments["stream_logs"]) == ("left_preparing", False)


def test_a_word_that_is_no_end_of_a_wait_is_found_while_the_dag_is_read_or_named_by_the_task(
    service: FakeService, context: Any
) -> None:
    with pytest.raises(InvalidArgument, match="until must be one of left_queued, "):
        TrainingJobSensor(task_id="t", job_id="digits_1", until="over")
    service.add(make_job())
    task = TrainingJobSensor(task_id="t", job_id="digits_1", until="{{ u }}")
    task.render_template_fields({"u": "over"})

    with pytest.raises(AirflowFailException, match="InvalidArgument: until must be one of left_queued, "):
        task.execute(context)


def test_a_revoke_shows_what_it_was_given() -> None:
    assert RevokeRegistryAccessOperator.template_fields_renderers == {"grant": "json"}
