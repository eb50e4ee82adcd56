"""The example DAGs by Vertex AI's API: the connection is another one, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.settings import Backend, Part
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.e2e.test_train_digits import read_object
from tests.support import web
from tests.support.example_dags import example_dags
from training_api.clients.training import TrainingClient
from training_api.job.results import JobResult
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(1800)]

PATIENCE_SECONDS = 900.0
TRIALS = 3
#: Every job is small: what is tried is the way there and back.
CONFS: dict[str, dict[str, Any]] = {
    "tune_digits": {"trials": TRIALS, "parallel_trials": 3, "trial_epochs": 1, "epochs": 2},
    "train_xgboost": {"epochs": 2},
    "train_digits": {"epochs": 1},
}
#: These take five minutes of two cores, and nothing of the way that the others do not: with ``EXAMPLES=all``.
MORE_CONFS: dict[str, dict[str, Any]] = {
    # Its data are those that other tests have changed, if these came before.
    "retrain_digits": {"epochs": 1, "hidden_units": 8, "min_accuracy": 0},
    "train_many": {"configurations": ["--epochs 1", "--epochs 2"]},
    "train_pytorch_ddp": {"epochs": 1, "workers": 1},
    "train_tensorflow_ps": {"epochs": 1, "workers": 1},
    "multi_step_pipeline": {"trials": 1, "trial_epochs": 1, "epochs": 1},
}
#: These need an image of somebody's own.
WITH_IMAGE = ("train_from_image", "train_shared_image")
IS_COMPLETE = os.environ.get("EXAMPLES") == "all"
#: These need what others have left, and run after them.
AFTERWARDS = ("rollback_digits", "cancel_orphans")


@pytest.fixture(scope="module")
def runs(stack: LocalStack, airflow: AirflowApi) -> Iterator[dict[str, Run]]:
    """A run of each DAG, side by side; ``training_default`` is Vertex AI's API."""
    LocalStack(stack.settings.model_copy(update={"backend": Backend.VERTEX})).up([Part.AIRFLOW])
    try:
        runs = start(airflow, CONFS | (MORE_CONFS if IS_COMPLETE else {}))
        pushed = runs["train_digits"].xcom("train.push")
        yield runs | start(airflow, {name: {"image": pushed, "args": "--epochs 1"} for name in WITH_IMAGE})
    finally:
        stack.up([Part.AIRFLOW])


def start(airflow: AirflowApi, confs: Mapping[str, dict[str, Any]]) -> dict[str, Run]:
    """Start a run of each DAG, and wait until all have ended well."""
    runs = {dag_id: Run.start(airflow, dag_id, conf) for dag_id, conf in confs.items()}
    for run in runs.values():
        run.wait_for_success(patience_seconds=PATIENCE_SECONDS)
    return runs


def collected(run: Run, task_id: str) -> JobResult:
    """Return what a job of the run has left."""
    return JobResult.model_validate(run.xcom(task_id))


def assert_is_whole(result: JobResult) -> None:
    """Check what every job by this API has, whatever it trains."""
    assert result.state is JobState.SUCCEEDED
    assert result.job_id.isdecimal()
    assert result.metrics
    assert result.model_uri in {file.uri for file in result.files}
    assert result.seconds.running > 0
    assert result.seconds.total >= result.seconds.running
    assert result.job_url is not None
    assert "/vertex/v1/projects/demo-project/locations/us-central1/" in result.job_url


def test_every_example_runs_that_the_guide_says_runs() -> None:
    said = {dag_id for dag_id, (runs_there, _) in example_dags().items() if runs_there}

    assert said == {*CONFS, *MORE_CONFS, *WITH_IMAGE, *AFTERWARDS}


def test_examples_leave_the_results_of_their_jobs(runs: dict[str, Run]) -> None:
    assert_is_whole(collected(runs["train_digits"], "train.collect"))
    for dag_id in WITH_IMAGE:
        assert collected(runs[dag_id], "collect").state is JobState.SUCCEEDED
    if IS_COMPLETE:
        for dag_id in ("train_pytorch_ddp", "train_tensorflow_ps"):
            assert_is_whole(collected(runs[dag_id], "train.collect"))
        assert_is_whole(collected(runs["retrain_digits"], "train.collect"))
        assert runs["retrain_digits"].xcom("compare.decide")["why"]
        for step in ("prepare", "tune", "train", "evaluate"):
            assert collected(runs["multi_step_pipeline"], f"{step}.collect").state is JobState.SUCCEEDED
        assert runs["train_many"].xcom("best")["metrics"]["accuracy"] > 0


def test_no_job_of_these_runs_is_an_orphan(runs: dict[str, Run], airflow: AirflowApi) -> None:
    run = Run.start(airflow, "cancel_orphans", {"grace_seconds": 0, "cancel": False})

    run.wait_for_success()
    assert run.xcom("cancel_orphans") == []


def test_trials_run_and_the_best_one_is_trained(
    runs: dict[str, Run], stack: LocalStack, training: TrainingClient
) -> None:
    run = runs["tune_digits"]
    tuned, final = collected(run, "tune.collect"), collected(run, "collect_best")
    study = tuned.study

    assert_is_whole(tuned)
    assert_is_whole(final)
    assert study is not None
    assert study.best is not None
    assert (study.completed, study.failed) == (TRIALS, 0)
    assert tuned.metrics["accuracy"] == study.best.objective
    assert tuned.model_uri == f"{tuned.job_dir}/{study.best.trial_id}/model.joblib"
    assert tuned.cost is not None
    assert tuned.cost.total == pytest.approx(0.01 * sum(row.seconds or 0.0 for row in study.trials))
    for files in run.xcom("tune.plot").values():
        assert read_object(stack, files["png"]).startswith(b"\x89PNG")
    assert final.metrics["epochs"] == 2
    assert f"trials: {TRIALS} done" in run.log("tune.wait_until_finished")


def test_replicas_train_together(runs: dict[str, Run]) -> None:
    result = collected(runs["train_xgboost"], "train.collect")

    assert_is_whole(result)
    assert result.metrics["replicas"] == 3
    assert "workerpool1-1" in runs["train_xgboost"].log("train.wait_until_finished")


def test_a_rollback_reads_the_models_folder(runs: dict[str, Run], airflow: AirflowApi) -> None:
    back = Run.start(airflow, "rollback_digits", {"expected": "somebody_else"})
    assert back.wait_for_end() == "failed"
    # Which of the two depends on whether another test has made a champion.
    assert any(error in back.log("rollback") for error in ("ChampionMoved", "ModelUnknown"))


def test_the_buttons_lead_somewhere(runs: dict[str, Run], stack: LocalStack) -> None:
    run = runs["tune_digits"]
    number = collected(run, "tune.collect").job_id

    links = run.links("tune.wait_until_finished")
    pages = {name: web.get(url or "") for name, url in links.items()}

    # The dashboard asks the service itself; its pages are for those who are logged in.
    assert links["Job"] == f"{stack.settings.airflow_url}/training/jobs/{number}?conn_id=training_local"
    assert {name: page.status_code for name, page in pages.items()} == {
        "Job": 401,
        "Job log": 200,
        "Model folder": 200,
    }
    assert "epoch 1/1" in pages["Job log"].text
