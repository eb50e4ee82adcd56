"""
A challenger beside the champion as one group of tasks.

It has a job for each model, and the decision at the end.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from container_training.comparison import Comparison, compare_with_champion
from container_training.operators.promotion import CHAMPION

FOLDER = "gs://b/models/digits"


def make_comparison(**fields: Any) -> Comparison:
    with DAG("retrain", schedule=None):
        return compare_with_champion(
            challenger={"version_id": "v2"}, model_folder=FOLDER, command=["python", "evaluate.py"], **fields
        )


def test_the_tasks_follow_each_other() -> None:
    comparison = make_comparison()

    assert comparison.prepare.downstream_task_ids >= {"compare.submit", "compare.decide"}
    assert comparison.submit.downstream_task_ids >= {"compare.wait", "compare.decide"}
    assert comparison.wait.downstream_task_ids == {"compare.decide"}
    assert comparison.decision.operator is comparison.decide


def test_there_is_a_job_a_model_with_the_same_command() -> None:
    submit = make_comparison(labels={"team": "a"}).submit

    assert submit.partial_kwargs["command"] == ["python", "evaluate.py"]
    assert submit.partial_kwargs["labels"] == {"team": "a"}
    assert submit.partial_kwargs["default_job_dir"].endswith("/{job_id}")


def test_the_decision_is_about_the_champion_that_was_evaluated() -> None:
    comparison = make_comparison(alpha=0.01, min_gain="0.02", min_accuracy=0.9)

    champion: Any = comparison.decide.champion
    assert (champion.operator, champion.key) == (comparison.prepare, CHAMPION)
    assert (comparison.decide.alpha, comparison.decide.min_gain) == (0.01, "0.02")
    assert comparison.decide.min_accuracy == 0.9


@pytest.mark.parametrize("place", ["dag", "group"])
def test_what_default_args_say_of_the_rule_wins_over_ours(place: str) -> None:
    said = {"alpha": 0.01, "min_gain": 0.02, "min_accuracy": 0.9, "args": ["--data", "gs://b/d"]}
    of_dag, of_group = (said, {}) if place == "dag" else ({}, said)

    with DAG("retrain", schedule=None, default_args=of_dag):
        comparison = compare_with_champion(
            challenger={}, model_folder=FOLDER, command="evaluate", default_args=of_group, min_gain=0.5
        )

    decide = comparison.decide
    assert (decide.alpha, decide.min_gain, decide.min_accuracy) == (0.01, 0.5, 0.9)
    assert comparison.prepare.args == ["--data", "gs://b/d"]


def test_the_rule_of_the_operator_holds_where_no_author_says_another() -> None:
    comparison = make_comparison()

    assert (comparison.decide.alpha, comparison.decide.min_gain) == (0.05, 0.0)
    assert (comparison.decide.min_accuracy, comparison.prepare.args) == (0.0, ())


def test_what_concerns_several_tasks_reaches_all_of_them() -> None:
    comparison = make_comparison(
        group_id="judge", training_conn_id="eu", registry_conn_id="mlflow_eu", wait_timeout=timedelta(hours=2)
    )

    assert comparison.prepare.task_id == "judge.prepare"
    assert {comparison.prepare.model_folder, comparison.decide.model_folder} == {FOLDER}
    assert {comparison.prepare.registry_conn_id, comparison.decide.registry_conn_id} == {"mlflow_eu"}
    assert comparison.submit.partial_kwargs["training_conn_id"] == "eu"
    assert comparison.wait.partial_kwargs["timeout"] == 7200
    assert comparison.decide.training_conn_id == "eu"


def test_a_wait_has_a_day_unless_an_author_says_otherwise() -> None:
    def wait_of(**fields: Any) -> Any:
        return make_comparison(**fields).wait.unmap({"job_id": "j"})

    assert wait_of().timeout == 86400
    assert wait_of(default_args={"timeout": 60}).timeout == 60
    limited = wait_of(wait_timeout=timedelta(hours=2), execution_timeout=timedelta(hours=1))
    assert (limited.timeout, limited.execution_timeout) == (7200, None)


def test_tasks_are_tried_again_unless_somebody_says_otherwise() -> None:
    assert make_comparison().decide.retries == 2
    assert make_comparison(default_args={"retries": 0}).decide.retries == 0


def test_text_is_a_command_as_a_shell_reads_it() -> None:
    with DAG("d", schedule=None):
        group = compare_with_champion(
            challenger={}, model_folder="gs://b/m", command="python evaluate.py --fast"
        )

    assert group.submit.partial_kwargs["command"] == "python evaluate.py --fast"
