"""The pages for those who come from elsewhere: their tables are whole, their example runs."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from container_training.hooks.training import TrainingHook
from tests.integration.live_service import IMAGE, run_service
from tests.integration.test_burst import run_context
from tests.support import web
from tests.support.docs_examples import ROOT, examples

PAGE = ROOT / "docs" / "coming-from-vertex-operators.md"
PROVIDER = "airflow.providers.google.cloud.operators.vertex_ai"
TRAINING = (
    "CustomTrainingJobBaseOperator",
    "CreateCustomContainerTrainingJobOperator",
    "CreateCustomPythonPackageTrainingJobOperator",
    "CreateCustomTrainingJobOperator",
)
SECTIONS = {
    "Arguments of the training operators": ("custom_job", TRAINING),
    "Arguments of CreateCustomJobOperator": ("custom_job", ("CreateCustomJobOperator",)),
    "Arguments of CreateHyperparameterTuningJobOperator": (
        "hyperparameter_tuning_job",
        ("CreateHyperparameterTuningJobOperator",),
    ),
}


def arguments_of(module: str, classes: tuple[str, ...]) -> set[str]:
    """Return the names that the classes' ``__init__`` take; the SDK is not imported."""
    spec = importlib.util.find_spec(PROVIDER)
    assert spec is not None
    (folder,) = spec.submodule_search_locations or ()
    tree = ast.parse((Path(folder) / f"{module}.py").read_text("utf-8"))
    return {
        argument.arg
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in classes
        for function in node.body
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        for argument in (*function.args.args, *function.args.kwonlyargs)
        if argument.arg != "self"
    }


@pytest.mark.parametrize("section", SECTIONS)
def test_each_argument_of_the_provider_is_in_the_table_and_no_other(section: str) -> None:
    theirs = arguments_of(*SECTIONS[section])
    (text,) = re.findall(
        rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    first = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    listed = {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}
    of_models = {name for name in theirs if name.startswith("model_")} if "model_*" in listed else set()

    assert listed - {"model_*"} | of_models == theirs


def test_the_example_makes_the_job_that_the_provider_would_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = (example.code for example in examples("vertex operators before"))
    (after,) = (example.code for example in examples("vertex operators after"))
    call = ast.parse(before).body[0].value  # type: ignore[attr-defined]
    theirs = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    task = task_of(after.replace(theirs["container_uri"], IMAGE), tmp_path)
    task.wait_for_completion = False
    with run_service(tmp_path) as service:
        extra = {"project": "demo-project", "region": "us-central1"}
        connection = {"conn_type": "vertex_training", "host": f"{service.endpoint}/vertex", "password": "t"}
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps({**connection, "extra": extra}))
        number = task.execute(run_context("train"))
        with TrainingHook() as hook:
            assert hook.get_job(number).job_id == number
        path = f"/vertex/v1/projects/demo-project/locations/us-central1/customJobs/{number}"
        spec = web.get(service.endpoint + path).raise_for_status().json()["jobSpec"]

    pools = spec["workerPoolSpecs"]
    assert sum(int(pool["replicaCount"]) for pool in pools) == theirs["replica_count"]
    assert {pool["machineSpec"]["machineType"] for pool in pools} == {theirs["machine_type"]}
    assert spec["baseOutputDirectory"]["outputUriPrefix"] == theirs["base_output_dir"]
    for pool in pools:
        container = pool["containerSpec"]
        assert container["args"][: len(theirs["args"])] == theirs["args"]
        assert {each["name"]: each["value"] for each in container["env"]} == theirs["environment_variables"]


def task_of(code: str, folder: Path) -> Any:
    """Return the one task of a DAG file's text."""
    file = folder / "example.py"
    file.write_text(code, "utf-8")
    bag = DagBag(str(file), collect_dags=False)
    bag.collect_dags(str(file))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    (task,) = dag.tasks
    return task
