"""Tuning under the real scheduler: trials as containers, the best one trained, a cost limit."""

from __future__ import annotations

import re
from typing import Any

import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.e2e.test_train_digits import read_object
from tests.support.speed import scaled
from training_api.clients.training import TrainingClient
from training_api.job.results import JobResult, StudyResult
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e]

TRIALS, TRIAL_EPOCHS, EPOCHS = 6, 2, 4


@pytest.fixture(scope="module")
def run(airflow: AirflowApi) -> Run:
    """A run of the example DAG that has ended well."""
    conf = {"trials": TRIALS, "parallel_trials": 3, "trial_epochs": TRIAL_EPOCHS, "epochs": EPOCHS}
    run = Run.start(airflow, "tune_digits", conf)
    run.wait_for_success()
    return run


@pytest.fixture(scope="module")
def result(run: Run) -> JobResult:
    """What the search found."""
    return JobResult.model_validate(run.xcom("tune.collect"))


@pytest.fixture(scope="module")
def study(result: JobResult) -> StudyResult:
    """The figures of the study, and its table."""
    assert result.study is not None
    return result.study


@pytest.mark.proves("DAGs that tune", on="one machine")
def test_every_trial_is_in_the_table_and_the_best_one_is_the_best(study: StudyResult) -> None:
    assert [row.trial_id for row in study.trials] == [str(number) for number in range(1, TRIALS + 1)]
    assert (study.completed, study.failed, study.running) == (TRIALS, 0, 0)
    objectives = [row.objective for row in study.trials if row.objective is not None]
    assert study.best is not None
    assert study.best.objective == max(objectives)
    assert {row.step for row in study.trials} == {TRIAL_EPOCHS}


def test_the_model_and_the_metrics_are_those_of_the_best_trial(
    result: JobResult, study: StudyResult, stack: LocalStack
) -> None:
    assert study.best is not None
    assert result.model_uri == f"{result.job_dir}/{study.best.trial_id}/model.joblib"
    assert result.metrics["accuracy"] == study.best.objective
    assert read_object(stack, result.model_uri)


def test_the_best_configuration_was_trained_in_full(
    run: Run, study: StudyResult, training: TrainingClient
) -> None:
    final = JobResult.model_validate(run.xcom("collect_best"))

    assert study.best is not None
    job = training.get_job(final.job_id)
    assert job.training_input is not None
    assert job.training_input.args is not None
    assert job.training_input.args[:3] == study.best.args
    assert final.metrics["epochs"] == EPOCHS
    assert final.study is None


def test_the_log_of_the_wait_says_how_far_the_trials_are_and_what_they_cost(
    run: Run, result: JobResult
) -> None:
    lines = re.findall(
        r"trials: (\d+) done.* of 6; .*cost so far ([\d.e-]+) EUR", run.log("tune.wait_until_finished")
    )

    done = [int(found) for found, _ in lines]
    assert done == sorted(done)
    assert done[-1] == TRIALS
    assert result.cost is not None
    assert float(lines[-1][1]) == pytest.approx(result.cost.total, rel=0.01)


def test_the_job_costs_what_its_trials_cost(result: JobResult, study: StudyResult) -> None:
    assert result.cost is not None
    costs = [row.cost or 0.0 for row in study.trials]
    assert min(costs) > 0
    assert result.cost.total == pytest.approx(sum(costs))
    assert result.cost.total == pytest.approx(0.01 * sum(row.seconds or 0.0 for row in study.trials))


def test_the_plots_are_in_the_job_directory(run: Run, result: JobResult, stack: LocalStack) -> None:
    plots: dict[str, dict[str, str]] = run.xcom("tune.plot")

    for files in plots.values():
        assert files["png"].startswith(f"{result.job_dir}/plots/")
        assert read_object(stack, files["png"]).startswith(b"\x89PNG")
        assert b"learning-rate" in read_object(stack, plots["parallel-coordinates"]["html"])


@pytest.mark.extended
def test_a_search_that_costs_too_much_is_cancelled_and_keeps_its_best_trial(
    run: Run, airflow: AirflowApi, training: TrainingClient
) -> None:
    # A minute of trials on an idle machine: more than one takes, and less than 200 do.
    max_cost = round(0.01 * scaled(60), 2)
    limited = Run.start(
        airflow, "tune_digits", {"trials": 200, "parallel_trials": 2, "trial_epochs": 1, "max_cost": max_cost}
    )

    assert limited.wait_for_end() == "failed"

    wait = "tune.wait_until_finished"
    log = limited.log(wait)
    assert re.search(
        rf"CostLimitReached: job '\w+' cost \d+\.\d+ EUR, .* max_cost {max_cost} EUR, "
        "and was cancelled; best accuracy",
        log,
    )
    assert limited.failures(wait) == 1
    assert training.get_job(limited.xcom("tune.submit")).state is JobState.CANCELLED
    kept: dict[str, Any] = airflow.xcom(limited.dag_id, limited.run_id, wait, "study")
    assert kept["best"]["hyperparameters"]
    assert 0 < kept["completed"] < 200
    assert limited.states()["submit_best"] == "upstream_failed"
