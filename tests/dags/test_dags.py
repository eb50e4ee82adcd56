"""The example DAGs import without errors and heavy modules, and have the shape of the guide."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
import time_machine
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, XComArg
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DataInterval, TimeRestriction

from container_training.operators.image import PushImageOperator
from container_training.operators.training import SubmitTrainingJobOperator
from tests.support.speed import scaled

DAGS = Path(__file__).parents[2] / "dags"
FILES = sorted(DAGS.glob("*.py"))
CHAIN = [
    "build",
    "test",
    "push",
    "grant",
    "submit",
    "wait_until_scheduled",
    "wait_until_running",
    "wait_until_finished",
    "collect",
]
#: What takes long to load, or much memory, or both.
HEAVY = [
    "google.cloud",
    "google.api_core",
    "grpc",
    "docker",
    "optuna",
    "sklearn",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "ray",
    "litellm",
    "kubernetes",
    "gcp_storage_emulator",
    "build",
    "setuptools",
    "airflow.providers.google",
    "airflow.providers.docker",
    "torch",
    "tensorflow",
    "xgboost",
    "vl_convert",
    "openlineage",
]


def read(path: Path) -> DAG:
    bag = DagBag(str(path), collect_dags=False)
    bag.collect_dags(str(path))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    return dag  # type: ignore[return-value]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_dag_is_named_like_its_file_and_has_no_cycle(path: Path, airflow_db: Path) -> None:
    dag = read(path)

    dag.check_cycle()
    assert dag.dag_id == path.stem
    # Examples run when they are asked to; what runs by itself must be woken first.
    assert dag.schedule is None or ("example" not in dag.tags and dag.is_paused_upon_creation)
    assert dag.doc_md
    assert "container-training" in dag.tags
    assert all(dag.params.get_param(name).description for name in dag.params)


def test_train_digits_is_the_whole_chain_in_its_order(airflow_db: Path) -> None:
    dag = read(DAGS / "train_digits.py")

    tasks = [f"train.{name}" for name in CHAIN]
    assert set(dag.task_ids) == {"upload_data", "train.preflight", *tasks}
    for before, after in pairwise(tasks):
        assert after in dag.get_task(before).downstream_task_ids
    assert "train.submit" in dag.get_task("upload_data").downstream_task_ids
    preflight = dag.get_task("train.preflight")
    assert (preflight.upstream_task_ids, preflight.downstream_task_ids) == ({"train.build"}, {"train.submit"})


def test_the_waits_of_train_digits_are_deferrable_and_only_the_last_shows_the_log(airflow_db: Path) -> None:
    dag = read(DAGS / "train_digits.py")

    waits = [dag.get_task(f"train.{name}") for name in CHAIN[5:8]]
    assert [wait.until.value for wait in waits] == ["left_queued", "left_preparing", "finished"]
    assert all(wait.deferrable for wait in waits)
    # Nothing said: only a wait for the end shows the log.
    assert [wait.stream_logs for wait in waits] == [None, None, None]


def test_every_attempt_of_train_digits_has_a_job_folder_of_its_own(airflow_db: Path) -> None:
    submit = read(DAGS / "train_digits.py").get_task("train.submit")

    assert submit.default_job_dir.endswith("/{job_id}")


def test_tune_digits_draws_its_trials_and_trains_the_best_one(airflow_db: Path) -> None:
    dag = read(DAGS / "tune_digits.py")

    tasks = {f"tune.{name}" for name in (*CHAIN, "preflight", "plot")}
    assert set(dag.task_ids) == tasks | {"submit_best", "wait_for_best", "collect_best"}
    assert dag.get_task("tune.plot").upstream_task_ids == {"tune.submit", "tune.wait_until_finished"}
    assert dag.get_task("submit_best").upstream_task_ids == {"tune.push", "tune.collect"}
    assert dag.get_task("collect_best").upstream_task_ids == {"submit_best", "wait_for_best"}


def test_only_the_search_of_tune_digits_has_hyperparameters_and_a_limit_of_cost(airflow_db: Path) -> None:
    dag = read(DAGS / "tune_digits.py")

    search, final = dag.get_task("tune.submit"), dag.get_task("submit_best")
    wait = dag.get_task("tune.wait_until_finished")
    assert [param["parameterName"] for param in search.hyperparameters["params"]] == [
        "learning-rate",
        "hidden-units",
        "activation",
    ]
    assert search.max_cost == wait.max_cost == "{{ params.max_cost or '' }}"
    assert (final.hyperparameters, final.max_cost) == (None, None)


@pytest.mark.parametrize("name", ["train_pytorch_ddp", "train_tensorflow_ps", "train_xgboost"])
def test_a_framework_is_built_before_the_images_that_are_made_from_it(name: str, airflow_db: Path) -> None:
    dag = read(DAGS / f"{name}.py")

    builds = {task_id for task_id in dag.task_ids if task_id.startswith("train.build")}
    assert dag.get_task("framework").downstream_task_ids == builds
    for build in builds:
        # Side by side: none waits for another.
        assert dag.get_task(build).upstream_task_ids == {"framework"}


def test_train_tensorflow_ps_makes_an_image_for_each_role_as_the_guide_shows(airflow_db: Path) -> None:
    dag = read(DAGS / "train_tensorflow_ps.py")

    files = {
        task_id.removeprefix("train.build"): Path(dag.get_task(task_id).dockerfile).name
        for task_id in dag.task_ids
        if task_id.startswith("train.build")
    }
    assert files == {
        "": "Dockerfile-master",
        "_worker": "Dockerfile-worker",
        "_parameter_server": "Dockerfile-ps",
    }


def test_retrain_digits_runs_one_after_the_other_and_makes_up_for_no_missed_night(airflow_db: Path) -> None:
    dag = read(DAGS / "retrain_digits.py")

    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    (asset,) = dag.schedule.asset_condition.objects
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path == "container_training.triggers.object_changes.ObjectChangeTrigger"
    assert arguments["uri"] == "{job_bucket}/datasets/digits/"


def test_after_missed_nights_retrain_digits_runs_once_for_the_last_one(airflow_db: Path) -> None:
    dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(read(DAGS / "retrain_digits.py")))
    restriction = TimeRestriction(earliest=datetime(2026, 1, 1, tzinfo=UTC), latest=None, catchup=dag.catchup)
    last = DataInterval.exact(datetime(2026, 11, 1, 3, tzinfo=UTC))

    with time_machine.travel(datetime(2026, 11, 20, 12, tzinfo=UTC), tick=False):
        first = dag.timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        assert first is not None
        second = dag.timetable.next_dagrun_info(
            last_automated_data_interval=first.data_interval, restriction=restriction
        )

    assert second is not None
    assert [first.run_after, second.run_after] == [
        datetime(2026, 11, 20, 3, tzinfo=UTC),
        datetime(2026, 11, 21, 3, tzinfo=UTC),
    ]


def test_retrain_digits_builds_and_submits_nothing_before_the_data_are_checked(airflow_db: Path) -> None:
    dag = read(DAGS / "retrain_digits.py")

    before = {"sample_data", "snapshot", "validate"}
    assert dag.get_task("validate").get_flat_relative_ids(upstream=True) == before - {"validate"}
    after = dag.get_task("validate").get_flat_relative_ids(upstream=False)
    assert set(dag.task_ids) == before | after


def test_retrain_digits_compares_what_it_registered_and_promotes_what_it_compared(airflow_db: Path) -> None:
    dag = read(DAGS / "retrain_digits.py")

    assert dag.get_task("register").upstream_task_ids == {"train.collect", "snapshot"}
    assert dag.get_task("compare.prepare").upstream_task_ids == {"register", "snapshot"}
    assert dag.get_task("compare.decide").upstream_task_ids == {
        "register",
        "compare.prepare",
        "compare.submit",
        "compare.wait",
    }
    assert dag.get_task("promote").upstream_task_ids == {"register", "compare.decide", "route", "approve"}
    assert [asset.name for asset in dag.get_task("promote").outlets] == ["digits-champion"]


@pytest.mark.parametrize(
    ("promote", "approval", "goes_on_with"),
    [(False, "True", None), (False, "False", None), (True, "True", "approve"), (True, "False", "promote")],
)
def test_retrain_digits_asks_a_person_only_if_it_is_told_to(
    promote: bool, approval: str, goes_on_with: str | None, airflow_db: Path
) -> None:
    dag = read(DAGS / "retrain_digits.py")

    chosen = dag.get_task("route").python_callable({"promote": promote}, approval)

    assert chosen == goes_on_with
    assert dag.get_task("route").downstream_task_ids == {"approve", "promote"}
    # A "no" skips the promotion; so does nobody's answer, by a failure.
    assert dag.get_task("approve").downstream_task_ids == {"promote"}
    assert dag.get_task("promote").trigger_rule == "none_failed_min_one_success"
    assert dag.params["approval"] is False


def test_rollback_digits_is_one_step_that_needs_no_waking(airflow_db: Path) -> None:
    dag = read(DAGS / "rollback_digits.py")

    assert dag.task_ids == ["rollback"]
    assert dag.is_paused_upon_creation is False
    folder = read(DAGS / "retrain_digits.py").get_task("promote").model_folder
    assert dag.get_task("rollback").model_folder == folder


def test_multi_step_pipeline_hands_on_images_by_digest_and_files_by_generation(airflow_db: Path) -> None:
    dag = read(DAGS / "multi_step_pipeline.py")

    steps = ["prepare", "tune", "train", "evaluate"]
    assert {task_id.split(".")[0] for task_id in dag.task_ids} == {
        *("framework", "build", "test", "push", "grant", "register"),
        *steps,
    }
    for earlier, later in pairwise(steps):
        assert f"{later}.submit" in dag.get_task(f"{earlier}.collect").downstream_task_ids
    assert all("push" in dag.get_task(f"{step}.submit").upstream_task_ids for step in steps)
    data = "{{ ti.xcom_pull(task_ids='prepare.collect', key='uris')['train.npz'] }}"
    assert data in dag.get_task("tune.submit").args
    assert data in dag.get_task("train.submit").args
    assert dag.get_task("register").upstream_task_ids == {
        "train.collect",
        "evaluate.collect",
        "prepare.collect",
    }


def test_multi_step_pipeline_evaluates_on_rows_that_tuning_and_training_do_not_get(airflow_db: Path) -> None:
    dag = read(DAGS / "multi_step_pipeline.py")
    held_out = "{{ ti.xcom_pull(task_ids='prepare.collect', key='uris')['holdout.npz'] }}"

    given = {step: held_out in dag.get_task(f"{step}.submit").args for step in ("tune", "train", "evaluate")}

    assert given == {"tune": False, "train": False, "evaluate": True}


@pytest.fixture(scope="module")
def modules(airflow_db: Path) -> dict[str, list[str]]:
    """
    Return, for each file, the modules that reading it has added.

    The key ``after`` has all modules in the end, and ``built`` the messages' models that something has used.

    All files in one fresh interpreter, read and serialized as the DAG processor does it. What Airflow loads
    while it starts is no concern of a DAG's; what one file has loaded is blamed on that one.
    """
    code = f"""
import json, sys
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import Asset, BaseHook, BaseOperator, BaseSensorOperator, DAG, Param, TaskGroup, XComArg, task
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.triggers.base import BaseTrigger
found = {{}}
for path in {[str(path) for path in FILES]!r}:
    before = set(sys.modules)
    bag = DagBag(path, collect_dags=False)
    bag.collect_dags(path)
    assert bag.dags and not bag.import_errors, bag.import_errors
    for dag in bag.dags.values():
        LazyDeserializedDAG.from_dag(dag)
    found[path] = sorted(set(sys.modules) - before)
from training_api.wire import WireModel
built = [model.__name__ for model in WireModel.__subclasses__() if model.__pydantic_complete__]
print(json.dumps({{**found, "after": sorted(sys.modules), "built": built}}))
"""
    output = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=scaled(240),
        env=dict(os.environ),
    ).stdout
    found: dict[str, list[str]] = json.loads(output.splitlines()[-1])
    return found


def within(names: list[str], packages: list[str]) -> list[str]:
    """Return those of the modules ``names`` that are one of ``packages``, or within one."""
    return [
        name for name in names if any(name == found or name.startswith(f"{found}.") for found in packages)
    ]


def test_every_python_file_below_dags_is_looked_at() -> None:
    assert sorted(DAGS.rglob("*.py")) == FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reading_a_dag_imports_nothing_heavy(path: Path, modules: dict[str, list[str]]) -> None:
    assert within(modules[str(path)], HEAVY) == []
    # The project itself was read, so that there was something to find.
    assert within(modules["after"], ["container_training.operators"])


@pytest.mark.parametrize(
    "name",
    [
        *("google.cloud.aiplatform", "docker", "optuna"),
        # What a task makes when it runs.
        *("training_api.clients.training", "training_api.clients.vertex", "training_api.clients.iam"),
        "container_training.work.models.data_snapshots",
    ],
)
def test_where_dags_are_read_there_is_none_of_them_at_all(name: str, modules: dict[str, list[str]]) -> None:
    assert within(modules["after"], [name]) == []


def test_where_dags_are_read_no_model_of_a_message_is_built(modules: dict[str, list[str]]) -> None:
    assert modules["built"] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_connection_says_which_registry_and_which_base_image(path: Path) -> None:
    text = path.read_text("utf-8")

    assert [word for word in ("{{{{", "image_prefix", "base_image") if word in text] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_jobs_of_images_that_are_built_here_run_what_was_pushed_by_digest(
    path: Path, airflow_db: Path
) -> None:
    dag = read(path)

    if any(task.task_type == "PushImageOperator" for task in dag.tasks):
        for submit in (task for task in dag.tasks if isinstance(task, SubmitTrainingJobOperator)):
            configs = [submit.worker_config, submit.parameter_server_config, submit.evaluator_config]
            images = [submit.image, *((config or {}).get("image_uri") for config in configs)]
            makers = [image.operator for image in images if isinstance(image, XComArg)]
            assert not [image for image in images if isinstance(image, str)]
            assert all(isinstance(maker, PushImageOperator) for maker in makers)
