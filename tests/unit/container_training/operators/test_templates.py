"""What can be a template, of every operator; and what a template may leave behind."""

from __future__ import annotations

import json
from datetime import timedelta
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
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor
from container_training.work.template_values import flag, is_unset, number, seconds, whole_number
from tests.support.fakes.fake_service import FakeService, make_job
from tests.support.public_operators import own_arguments, public_operators
from training_api.errors import InvalidArgument

OPERATORS = public_operators()
#: Arguments that are no templates, and why.
NOT_TEMPLATED = {
    ("TrainingJobSensor", "deferrable"): "whether a task is deferred is known before it runs",
    (
        "TrainingJobSensor",
        "poke_interval",
    ): "an argument of every sensor of Airflow, which reads it unrendered",
}
#: ``dry_run`` is a method of every operator of Airflow.
ATTRIBUTES = {"dry_run": "is_dry_run"}


def test_all_operators_are_found() -> None:
    assert set(OPERATORS) == {
        "BuildImageOperator",
        "TestImageOperator",
        "PushImageOperator",
        "ImageBillOfMaterialsOperator",
        "GrantRegistryAccessOperator",
        "RevokeRegistryAccessOperator",
        "PreflightOperator",
        "PackageTrainerOperator",
        "SubmitTrainingJobOperator",
        "TrainingJobSensor",
        "CancelOrphanJobsOperator",
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
    assert {argument for _, argument in NOT_TEMPLATED} <= set(own_arguments(OPERATORS["TrainingJobSensor"]))


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
    # Airflow would read a file in place of its name, and render its contents: a job file is read by the task,
    # as it is.
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


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "text"])
def test_a_job_is_the_same_from_native_templates_and_from_text(
    service: FakeService, context: Any, is_native: bool
) -> None:
    task = SubmitTrainingJobOperator(
        task_id="submit",
        image="127.0.0.1:5000/demo/digits:{{ n }}",
        args=["--epochs", "{{ n }}", "--rate", "{{ rate }}"],
        worker_count="{{ n }}",
        worker_type="n1-standard-4",
        master_type="n1-standard-4",
        labels={"number": "{{ n }}"},
        max_running_time="{{ n }}s",
        priority="{{ n }}",
        use_chief_in_tf_config="{{ yes }}",
        detached="{{ yes }}",
    )
    task.dag = DAG("d", schedule=None, render_template_as_native_obj=is_native)

    task.render_template_fields({"n": 3, "rate": 0.5, "yes": True})
    job = service.jobs[task.execute(context)]

    assert job.training_input is not None
    assert job.training_input.to_wire() == {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": "3",
        "useChiefInTfConfig": True,
        "masterConfig": {"imageUri": "127.0.0.1:5000/demo/digits:3"},
        "args": ["--epochs", "3", "--rate", "0.5"],
        "scheduling": {"maxRunningTime": "3s", "priority": 3},
    }
    assert (job.labels or {}).items() >= {"number": "3", "airflow-detached": "true"}.items()


def test_one_argument_that_is_a_number_by_itself_is_an_argument(service: FakeService, context: Any) -> None:
    task = SubmitTrainingJobOperator(task_id="submit", image="127.0.0.1:5000/demo/digits:1", args="{{ n }}")
    task.dag = DAG("d", schedule=None, render_template_as_native_obj=True)

    task.render_template_fields({"n": 3})

    job = service.jobs[task.execute(context)]
    assert (job.training_input and job.training_input.args) == ["3"]


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
    with pytest.raises(ValueError, match="is not a valid Until"):
        TrainingJobSensor(task_id="t", job_id="digits_1", until="over")
    service.add(make_job())
    task = TrainingJobSensor(task_id="t", job_id="digits_1", until="{{ u }}")
    task.render_template_fields({"u": "over"})

    with pytest.raises(AirflowFailException, match="InvalidArgument: until must be one of left_queued, "):
        task.execute(context)


def test_a_revoke_shows_what_it_was_given() -> None:
    assert RevokeRegistryAccessOperator.template_fields_renderers == {"grant": "json"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("True", True), (" true ", True), (1, True), (None, False), ("", False), ("None", False)],
)
def test_flags(value: Any, expected: bool) -> None:
    assert flag("x", value) is expected


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (flag, "maybe", "x must be true or false, got 'maybe'"),
        (number, "many", "x must be a number, got 'many'"),
        (number, True, "x must be a number, got True"),
        (number, "inf", "x must be a number, got 'inf'"),
        (whole_number, "2.5", "x must be a whole number, got '2.5'"),
        (whole_number, None, "x must be a whole number, got None"),
        (seconds, "soon", "x must be a number of seconds, got 'soon'"),
    ],
)
def test_what_is_no_value_is_named(read: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read("x", value)

    assert str(refused.value) == message


def test_numbers_and_times() -> None:
    assert (number("x", "2.5"), whole_number("x", "9007199254740993")) == (2.5, 9007199254740993)
    assert (seconds("x", timedelta(minutes=1)), seconds("x", "1.5")) == (60.0, 1.5)
    assert [is_unset(value) for value in (None, "", "None", 0, json.dumps(0))] == [
        True,
        True,
        True,
        False,
        False,
    ]
