"""What a type checker, and so an editor, says of right calls in DAGs and of wrong ones."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator, BaseSensorOperator

from container_training.operators.image import BuildImageOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.job_description import JobArguments, JobDescriptionOperator
from container_training.runtime.task_arguments import (
    BuildArguments,
    EngineArguments,
    OperatorArguments,
    SensorArguments,
)
from container_training.work.submission.job_request import JobFields
from tests.support.docs_examples import PAGES, examples_in
from tests.support.public_operators import public_operators

ROOT = Path(__file__).parents[2]
#: An author's configuration: nothing strict, so that what is found is found by everybody.
CONFIG = f"""
[mypy]
mypy_path = {ROOT / "plugins"}:{ROOT / "docker"}:{ROOT}
namespace_packages = true
explicit_package_bases = true
check_untyped_defs = true
follow_imports = silent
ignore_missing_imports = true
"""
FUNCTIONS = {"training_pipeline", "training_step", "compare_with_champion"}

#: Lines with ``# wrong`` have a mistake; the others have none.
CALLS = """\
from datetime import timedelta

from airflow.sdk import DAG, task

from container_training.comparison import compare_with_champion
from container_training.operators.image import BuildImageOperator, PushImageOperator, TestImageOperator
from container_training.operators.models import PromoteModelOperator, RegisterModelOperator
from container_training.operators.preflight import PreflightOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.pipeline import RoleImage, training_pipeline
from container_training.runtime.job_description import JobDescription
from container_training.sensors.training import TrainingJobSensor
from container_training.step import training_step

HOUR = timedelta(hours=1)
JOB: JobDescription = {"image": "i", "worker_count": 2, "config_file": "job.yaml"}
WRONG_JOB: JobDescription = {"imgae": "i"}  # wrong
ALSO_WRONG: JobDescription = {"priority": 1.5}  # wrong


@task
def space() -> dict[str, str]:
    return {}


with DAG("d", schedule=None):
    build = BuildImageOperator(task_id="b", context_dir=".", image="i", queue="gpu", docker_url="tcp://h")
    push = PushImageOperator(task_id="p", image=build.output, retries=3, execution_timeout=HOUR)
    submit = SubmitTrainingJobOperator(task_id="s", image=push.output, args="--epochs 3", worker_count="2")
    SubmitTrainingJobOperator(task_id="s2", detached=True, pool="p", **JOB)
    SubmitTrainingJobOperator(task_id="s3", args=submit.output, labels={"a": "b"}, hyperparameters=space())
    PreflightOperator(task_id="f", seconds=5, docker_conn_id="d", trigger_rule="all_done", **JOB)
    wait = TrainingJobSensor(task_id="w", job_id=submit.output, mode="reschedule", timeout=60, retries=1)
    collect = CollectTrainingResultsOperator(task_id="c", job_id=submit.output, outlets=[])
    RegisterModelOperator(task_id="r", model_folder="gs://b/m", result=collect.output)
    PromoteModelOperator(task_id="m", model_folder="gs://b/m", version=space(), decision=space())
    training_pipeline(context_dir=".", image="i", args=["--epochs", 3], queue="gpu", execution_timeout=HOUR)
    training_pipeline(context_dir=".", image="i", images={"worker": RoleImage(dockerfile="D")}, labels={})
    training_step("one", image=push.output, reuse_results=True, model_file="m.json", retries=0, pool="p")
    training_step("two", image="i", hyperparameters=space(), worker_config={"image_uri": push.output})
    compare_with_champion(challenger={}, model_folder="gs://b", command=["e"], labels={"a": "b"}, queue="q")
    SubmitTrainingJobOperator.partial(task_id="s4", image="i").expand(args=[["a"], ["b"]])

    SubmitTrainingJobOperator(task_id="x1", imgae="i")  # wrong
    SubmitTrainingJobOperator(task_id="x2", image="i", worker_cuont=2)  # wrong
    SubmitTrainingJobOperator(task_id="x3", image="i", priority=[1])  # wrong
    SubmitTrainingJobOperator(task_id="x4", image="i", labels="team")  # wrong
    SubmitTrainingJobOperator(task_id="x5", image="i", retires=3)  # wrong
    SubmitTrainingJobOperator(task_id="x6", image="i", execution_timeout=3600)  # wrong
    SubmitTrainingJobOperator(image="i")  # wrong
    PreflightOperator(task_id="x7", image="i", dokcer_url="u")  # wrong
    PreflightOperator(task_id="x8", image="i", worker_count={})  # wrong
    BuildImageOperator(task_id="x9", context_dir=".", image="i", build_arg={"A": "b"})  # wrong
    TestImageOperator(task_id="x10", image="i", queue=5)  # wrong
    TrainingJobSensor(task_id="x11", job_id="j", poke_intervall=3)  # wrong
    TrainingJobSensor(task_id="x12", job_id="j", soft_fail="yes", timeout=3)  # wrong
    CollectTrainingResultsOperator(task_id="x13", job_id="j", model="m")  # wrong
    RegisterModelOperator(task_id="x14", model_folder="gs://b/m", result={}, gcp_connection="g")  # wrong
    RegisterModelOperator(task_id="x15", result={})  # wrong
    training_pipeline(context_dir=".", image="i", arg=["--epochs"])  # wrong
    training_pipeline(context_dir=".", image="i", max_running_time=60)  # wrong
    training_pipeline(context_dir=".", image="i", wait_timeout=60)  # wrong
    training_pipeline(context_dir=".", image="i", queue=None)  # wrong
    training_step("x16", image="i", hyperparameter={})  # wrong
    training_step("x17", image="i", worker_config="c")  # wrong
    training_step("x18", image="i", trigger_rule="all_done", worker_type=1)  # wrong
    training_step("x19")  # wrong
    compare_with_champion(challenger={}, model_folder="gs://b", command=["e"], image="i")  # wrong
    compare_with_champion(challenger={}, model_folder="gs://b", command=["e"], master_typ="m")  # wrong
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what is checked, with mypy's cache for the second run."""
    return tmp_path_factory.mktemp("checked")


def mypy(*paths: Path, folder: Path) -> list[str]:
    """Return the errors that mypy finds in ``paths``, one a line: ``PATH:LINE: error: ...``."""
    config = folder / "mypy.ini"
    config.write_text(CONFIG, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(config),
        "--cache-dir",
        str(folder / "cache"),
    ]
    ran = subprocess.run(
        [*command, "--show-absolute-path", *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return [line for line in ran.stdout.splitlines() if ": error: " in line]


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_a_wrong_call_is_found_on_its_line_and_a_right_one_is_accepted(folder: Path) -> None:
    file = folder / "calls.py"
    file.write_text(CALLS, encoding="utf-8")
    wrong = [number for number, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# wrong")]

    found = mypy(file, folder=folder)

    assert sorted({int(line.split(":")[1]) for line in found}) == wrong, "\n".join(found)


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_the_dags_and_the_examples_of_the_documentation_call_everything_rightly(folder: Path) -> None:
    examples = []
    for example in (example for page in PAGES for example in examples_in(page)):
        if example.kind == "dags" or example.kind.startswith("operator "):
            examples.append(folder / f"example_{len(examples)}.py")
            examples[-1].write_text(example.code, encoding="utf-8")
    names = {*public_operators(), *FUNCTIONS}

    found = mypy(*sorted((ROOT / "dags").glob("*.py")), *examples, folder=folder)

    assert len(examples) > 20
    assert [line for line in found if names & set(re.findall(r'"(\w+)"', line))] == []


def named(function: Any) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: each for name, each in parameters.items() if name not in ("self", "kwargs")}


def test_the_list_of_job_fields_is_what_an_operator_takes_and_templates() -> None:
    """It is their one home, with their types."""
    taken = named(JobDescriptionOperator.__init__)
    listed = {
        name: getattr(kind, "__forward_arg__", kind) for name, kind in JobFields.__annotations__.items()
    }

    assert {name: taken[name].annotation for name in listed} == listed
    assert set(JobFields.__annotations__) < set(SubmitTrainingJobOperator.template_fields)
    assert set(JobArguments.__annotations__) == {*taken, *OperatorArguments.__annotations__}


def test_the_list_of_a_builds_arguments_is_what_the_operator_takes() -> None:
    taken = named(BuildImageOperator.__init__)

    assert set(BuildArguments.__annotations__) == {*taken, *EngineArguments.__annotations__}
    for name, parameter in taken.items():
        kind = BuildArguments.__annotations__[name].__forward_arg__
        assert kind in (parameter.annotation, f"Required[{parameter.annotation}]"), name


def test_the_lists_of_airflows_arguments_are_those_of_its_operators() -> None:
    of_sensors = {**named(BaseOperator.__init__), **named(BaseSensorOperator.__init__)}
    named_itself = {"retries", "retry_delay", "poke_interval"}

    assert set(OperatorArguments.__annotations__) == set(named(BaseOperator.__init__))
    assert set(SensorArguments.__annotations__) == set(of_sensors) - named_itself


@pytest.mark.parametrize("name", public_operators())
def test_every_operator_says_what_else_it_takes(name: str) -> None:
    kinds = {
        base.__name__: inspect.signature(vars(base)["__init__"]).parameters["kwargs"].annotation
        for base in public_operators()[name].__mro__
        if "__init__" in vars(base) and base.__module__.startswith("container_training.")
    }

    assert [base for base, kind in kinds.items() if not str(kind).startswith("Unpack[")] == []
