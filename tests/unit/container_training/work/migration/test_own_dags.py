"""A DAG of this project that is to run on Vertex AI."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import pytest

from container_training.work.migration.dag_text import decisions_in
from container_training.work.migration.own_dags import own_dag_for_vertex
from tests.support.docs_examples import ROOT
from training_api.errors import InvalidCommand

HEAD = """
from airflow.sdk import DAG, task
from container_training.operators.training import SubmitTrainingJobOperator as Submit
from container_training.pipeline import training_pipeline
"""
CONNECTION = "the connection training_default must be of the type vertex_training: it has Vertex AI's project"


def no_file(path: str) -> Mapping[str, Any]:
    raise AssertionError(f"{path} is not asked for")


def told(body: str, files: Mapping[str, Mapping[str, Any]] | None = None) -> list[str]:
    source = HEAD + body
    written = own_dag_for_vertex(source, "dag.py", (files or {}).__getitem__ if files else no_file)
    assert written is not None
    kept = [line for line in written.splitlines() if not line.lstrip().startswith("# ")]
    assert kept == source.splitlines()
    return [decision for _, decision in decisions_in(written)]


@pytest.mark.parametrize("name", ["train_digits", "train_from_image", "train_pytorch_ddp", "train_many"])
def test_an_example_needs_another_connection_only(name: str) -> None:
    source = (ROOT / "dags" / f"{name}.py").read_text()

    written = own_dag_for_vertex(source, f"{name}.py", no_file)

    assert written is not None
    assert [decision for _, decision in decisions_in(written)] == [CONNECTION]
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(source))


def test_what_vertex_ai_lacks_is_told_above_the_call_with_the_nearest_choice() -> None:
    source = (
        HEAD
        + """
FIELDS = {"priority": 5}
with DAG("d"):
    job = Submit(task_id="a", image="gcr.io/p/i", scale_tier="STANDARD_1", max_wait_time="1800s", **FIELDS)
"""
    )
    written = own_dag_for_vertex(source, "dag.py", no_file) or ""

    lines = written.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("    job = "))
    assert all(line.startswith("    # ") for line in lines[place - 4 : place])
    connection, *refused = [decision for _, decision in decisions_in(written)]
    assert connection == CONNECTION
    assert [each.partition(": ")[0] for each in refused] == [
        "Vertex AI refuses scale_tier (trainingInput.scaleTier)",
        "Vertex AI refuses priority (trainingInput.scheduling.priority)",
        "Vertex AI refuses max_wait_time (trainingInput.scheduling.maxWaitTime)",
    ]
    assert "workerCount 4" in refused[0]


def test_a_number_that_only_a_run_knows_does_not_hide_the_rest() -> None:
    _, refused = told(
        """
Submit.partial(task_id="a", image="gcr.io/p/i", master_type="n1-standard-4",
    worker_type="complex_model_m", worker_count="{{ params.workers }}").expand(args=[["a"], ["b"]])
"""
    )

    assert "has no 'complex_model_m'" in refused


def test_what_only_a_run_knows_is_said() -> None:
    body = 'Submit(task_id="a", args=given(), runtime_version="{{ params.version }}"'

    _, version = told(f'{body}, python_module="a", package_uris=["gs://bucket/a.tar.gz"])')
    assert version.startswith("only a run knows runtime_version (trainingInput.runtimeVersion)")

    _, trials = told(
        'Submit(task_id="a", image="i", hyperparameters={"maxTrials": "{{ params.n }}"}, scale_tier="STANDARD_1")'
    )
    assert trials.startswith("only a run knows hyperparameters (trainingInput.hyperparameters.maxTrials)")

    _, arguments = told('Submit(task_id="a", image="i", **given())')
    assert arguments == "only a run knows **given(): what that says of the job is not judged"

    assert told('Submit(task_id="a", image="i", labels=given())')[1:] != []


def test_a_decorator_has_its_comment_above_it() -> None:
    source = (
        HEAD
        + """
@task.training_job(
    image="gcr.io/p/i",
    master_type="n1-standard-8",
    master_config={"accelerator_config": {"type": "NVIDIA_TESLA_K80", "count": 1}},
)
def train(a):
    return {}
"""
    )
    written = own_dag_for_vertex(source, "dag.py", no_file) or ""

    ast.parse(written)
    assert "NVIDIA_TESLA_T4\n@task.training_job(" in written


def test_the_job_file_and_the_options_count() -> None:
    file = {"job.yaml": {"trainingInput": {"scaleTier": "STANDARD_1"}}}
    call = 'training_pipeline(context_dir="x", image="i", config_file="job.yaml", vertex_options={"strategy": "NOW"})'

    _, *refused = told(call, file)

    assert [each.partition(": ")[0] for each in refused] == [
        "Vertex AI refuses vertex_options.strategy",
        "Vertex AI refuses scale_tier (trainingInput.scaleTier)",
    ]


def test_each_connection_is_named_once() -> None:
    decisions = told(
        """
Submit(task_id="a", image="i", training_conn_id="mine")
Submit(task_id="b", image="i", training_conn_id="mine")
Submit(task_id="c", image="i")
"""
    )

    assert [each.split()[2] for each in decisions] == ["mine", "training_default"]


def test_a_file_without_jobs_of_this_project_is_another_ones() -> None:
    assert own_dag_for_vertex("print(1)", "dag.py", no_file) is None

    with pytest.raises(InvalidCommand, match=r"dag\.py:1: is not Python"):
        own_dag_for_vertex("print(", "dag.py", no_file)
