"""One step of a pipeline of several jobs: its tasks, and what the next step takes of it."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from container_training.operators.results import BEST_TRIAL_ARGS, URIS
from container_training.step import TrainingStep, file_of, training_step

IMAGE = "127.0.0.1:5000/demo/digits@sha256:" + "a" * 64


def make_step(group_id: str = "tune", **fields: Any) -> TrainingStep:
    with DAG("chain", schedule=None):
        return training_step(group_id, image=IMAGE, **fields)


def test_a_step_submits_waits_and_collects() -> None:
    step = make_step()

    assert [task.task_id for task in (step.submit, step.wait, step.collect)] == [
        "tune.submit",
        "tune.wait",
        "tune.collect",
    ]
    assert step.submit.downstream_task_ids == {"tune.wait", "tune.collect"}
    assert step.wait.downstream_task_ids == {"tune.collect"}


def test_wait_and_collect_are_about_the_job_that_was_submitted() -> None:
    step = make_step()

    for task in (step.wait, step.collect):
        assert task.job_id.operator is step.submit  # type: ignore[attr-defined]


def test_the_job_has_a_folder_of_its_own_unless_it_is_given_one() -> None:
    default = "{{ conn.get('eu').extra_dejson.get('job_bucket', '') }}/{job_id}"

    assert make_step(training_conn_id="eu").submit.default_job_dir == default
    assert make_step(default_job_dir="gs://b/x").submit.default_job_dir == "gs://b/x"


def test_what_concerns_several_tasks_reaches_all_of_them() -> None:
    step = make_step(
        max_cost="5", training_conn_id="eu", wait_timeout=timedelta(hours=1), default_args={"retries": 7}
    )

    assert {task.training_conn_id for task in (step.submit, step.wait, step.collect)} == {"eu"}
    assert (step.submit.max_cost, step.wait.max_cost) == ("5", "5")
    assert step.wait.timeout == 3600
    assert {task.retries for task in (step.submit, step.wait, step.collect)} == {7}


SEARCH = {"maxTrials": 4, "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["metrics.json", "model.joblib"]),
        ({"model_file": "model.json", "metrics_file": "m.json"}, ["m.json", "model.json"]),
        ({"default_args": {"model_file": "model.json"}}, ["metrics.json", "model.json"]),
        ({"model_file": "model.json", "hyperparameters": SEARCH}, ["model.json"]),
        ({"model_file": "model.json", "job": {"trainingInput": {"hyperparameters": SEARCH}}}, ["model.json"]),
        ({"model_file": "model.json", "result_files": ["train.npz"]}, ["train.npz"]),
        ({"default_args": {"result_files": ["train.npz"]}}, ["train.npz"]),
    ],
)
def test_an_earlier_job_is_looked_for_by_the_files_that_the_step_collects(
    fields: dict[str, Any], expected: list[str]
) -> None:
    assert make_step(**fields).submit.result_files == expected


@pytest.mark.parametrize(
    "fields",
    [{"reuse_results": True}, {"reuse_results": "{{ params.r }}"}, {"default_args": {"reuse_results": True}}],
)
def test_the_collection_is_told_whether_an_earlier_job_was_taken(fields: dict[str, Any]) -> None:
    step = make_step(**fields)

    reused: Any = step.collect.reused
    assert step.submit.reuse_results
    assert (reused.operator, reused.key) == (step.submit, "reused")
    assert make_step().collect.reused is False


def test_assets_stand_for_the_results_of_the_step() -> None:
    step = make_step(outlets=[Asset("model")])

    assert (step.collect.outlets, step.submit.outlets) == ([Asset("model")], [])


def test_an_argument_of_one_task_is_refused_with_the_way_out() -> None:
    with pytest.raises(
        TypeError,
        match=r"trigger_rule='all_done' is for one task .* set it on the task .* submit.trigger_rule",
    ):
        make_step(trigger_rule="all_done")


def test_a_limit_of_the_wait_is_its_only_one() -> None:
    hour = timedelta(hours=1)

    limited = make_step(execution_timeout=hour, wait_timeout=timedelta(days=2))

    assert (limited.wait.timeout, limited.wait.execution_timeout) == (2 * 86400, None)
    assert limited.submit.execution_timeout == limited.collect.execution_timeout == hour
    assert make_step(execution_timeout=hour).wait.execution_timeout == hour
    assert make_step(default_args={"timeout": 60}).wait.timeout == 60


def test_fields_of_the_job_are_handed_on() -> None:
    step = make_step(args=["--epochs", "3"], worker_count=2)

    assert (step.submit.image, step.submit.args, step.submit.worker_count) == (IMAGE, ["--epochs", "3"], 2)


def test_the_next_step_takes_the_result_and_the_best_trials_arguments() -> None:
    step = make_step()

    assert step.result.operator is step.collect
    assert (step.best_trial_args.operator, step.best_trial_args.key) == (step.collect, BEST_TRIAL_ARGS)


@pytest.mark.parametrize("name", ["model.joblib", "eval/it's.json"])
def test_a_file_of_a_step_is_a_template_for_its_address(name: str) -> None:
    step = make_step()
    asked: list[dict[str, str]] = []

    def pull(**asked_for: str) -> dict[str, str]:
        asked.append(asked_for)
        return {name: f"gs://b/j/{name}#7"}

    rendered = step.submit.render_template(step.file(name), {"ti": SimpleNamespace(xcom_pull=pull)})

    assert rendered == f"gs://b/j/{name}#7"
    assert asked == [{"task_ids": "tune.collect", "key": URIS}]
    assert step.file(name) == file_of("tune.collect", name)


def test_two_steps_live_in_one_dag() -> None:
    with DAG("chain", schedule=None) as dag:
        one = training_step("one", image=IMAGE)
        two = training_step("two", image=IMAGE, args=[one.best_trial_args])
        one.group >> two.group

    assert "two.submit" in one.collect.downstream_task_ids
    assert len(dag.tasks) == 6
