"""
Tuning jobs as a whole: trials side by side, their end and the job's.

A kill changes nothing.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.studies import LEARNING_RATE, TAG, Tuning
from tests.support.fakes.world import World
from training_api.dialects.ml_v1.resources import (
    Goal,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    SearchAlgorithm,
)
from training_api.errors import InvalidJobSpec
from training_api.states import JobState
from training_service.store.database import open_database


def test_trials_run_side_by_side_up_to_the_limit(tuning: Tuning) -> None:
    tuning.submit()

    tuning.run()

    job = tuning.world.get()
    assert job.state is JobState.SUCCEEDED
    assert tuning.most_running == 2
    assert job.training_output is not None
    assert job.training_output.completed_trial_count == 6
    assert job.training_output.is_hyperparameter_tuning_job is True
    assert job.training_output.hyperparameter_metric_tag == TAG
    assert [trial.trial_id for trial in tuning.trials()] == ["1", "2", "3", "4", "5", "6"]
    # 6 trials of 10 seconds in 2 slots
    assert job.start_time is not None
    assert job.end_time is not None
    assert (job.end_time - job.start_time).total_seconds() == pytest.approx(30)


def test_a_trial_shows_its_metric_its_times_and_its_hyperparameters_as_strings(tuning: Tuning) -> None:
    tuning.submit(max_trials=1)

    tuning.run()

    (trial,) = tuning.trials()
    assert trial.state is JobState.SUCCEEDED
    assert trial.final_metric is not None
    assert trial.final_metric.to_wire() == {"objectiveValue": 1.0, "trainingStep": "1"}
    assert trial.all_metrics == [trial.final_metric]
    assert trial.start_time is not None
    assert trial.end_time is not None
    assert (trial.end_time - trial.start_time).total_seconds() == pytest.approx(10)
    assert 0.001 <= float((trial.hyperparameters or {})["lr"]) <= 1
    assert trial.is_trial_stopped_early is None


def test_replicas_get_the_hyperparameters_and_a_job_directory_of_their_own(tuning: Tuning) -> None:
    tuning.world.add_image(Behaviour(run_seconds=10))
    tuning.submit(job_id="other", max_trials=1)
    tuning.world.submit(
        "distributed",
        hyperparameters=tuning.world.get("other").training_input.hyperparameters,  # type: ignore[union-attr]
        args=["--epochs", "3"],
        job_dir="gs://bucket/folder/",
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count=2,
        worker_config=ReplicaConfig(image_uri="registry.test/project/trainer:1"),
    )
    tuning.world.settle()

    launches = [launch for launch in tuning.world.engine.launches() if launch.job_id == "distributed"]
    assert len(launches) == 3
    for launch in launches:
        assert launch.args[:4] == ("--epochs", "3", "--job-dir", "gs://bucket/folder/1")
        assert launch.args[4].startswith("--lr=")
        assert json.loads(launch.environment["CLUSTER_SPEC"])["task"]["trial"] == "1"
        assert json.loads(launch.environment["TF_CONFIG"])["task"]["trial"] == "1"
        assert launch.environment["CLOUD_ML_TRIAL_ID"] == "1"
        assert launch.environment["CLOUD_ML_HP_METRIC_TAG"] == TAG


def test_a_job_that_tunes_nothing_gets_no_variables_of_a_trial(tuning: Tuning) -> None:
    tuning.world.add_image(Behaviour(run_seconds=10))
    tuning.world.submit("plain")
    tuning.world.settle()

    (launch,) = tuning.world.engine.launches()
    assert not [name for name in launch.environment if name.startswith("CLOUD_ML")]


def test_the_api_lists_and_counts_tuning_jobs_and_not_their_trials(tuning: Tuning) -> None:
    tuning.submit()
    tuning.world.settle()

    listed = tuning.world.jobs.list_page("project").jobs or []
    assert [job.job_id for job in listed] == ["job"]
    assert listed[0].training_output is not None
    assert len(listed[0].training_output.trials or []) == 2
    assert tuning.world.store.count_by_state() == {JobState.RUNNING: 1}


def test_a_trial_without_its_metric_fails_and_says_which_tags_there_were(tuning: Tuning) -> None:
    tuning.tag = "acc"
    tuning.submit(max_trials=3)

    tuning.run()

    job = tuning.world.get()
    assert job.state is JobState.FAILED
    assert [trial.state for trial in tuning.trials()] == [JobState.FAILED] * 3
    assert "3 trials have failed, and none has succeeded" in str(job.error_message)
    assert "'accuracy': it reported 'acc'" in str(job.error_message)
    assert any("Trial 1 failed" in message and "'acc'" in message for message in tuning.world.messages())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_no_number_fails_its_trial_only(tuning: Tuning, value: float) -> None:
    tuning.score = lambda number, _: value if number == 2 else 0.5
    tuning.submit()

    tuning.run()

    states = [trial.state for trial in tuning.trials()]
    assert states.count(JobState.FAILED) == 1
    assert tuning.world.state() is JobState.SUCCEEDED
    assert tuning.world.get().training_output.completed_trial_count == 5  # type: ignore[union-attr]


def test_max_failed_trials_fails_the_job_and_ends_what_runs(tuning: Tuning) -> None:
    tuning.score = lambda number, _: None if number in (1, 3) else 1.0
    tuning.submit(max_trials=20, max_failed_trials=2)

    tuning.run()

    job = tuning.world.get()
    assert job.state is JobState.FAILED
    assert "2 trials have failed, and maxFailedTrials is 2" in str(job.error_message)
    assert len(tuning.trials()) < 20
    assert all(trial.state.is_terminal for trial in tuning.trials() if trial.state)
    assert tuning.world.engine.observe().job_uids == frozenset()


def test_five_failures_before_any_success_fail_the_job(tuning: Tuning) -> None:
    tuning.score = lambda *_: None
    tuning.submit(max_trials=50)

    tuning.run()

    assert tuning.world.state() is JobState.FAILED
    assert 5 <= len(tuning.trials()) <= 6


def test_an_image_that_is_not_there_fails_the_job_before_any_trial(tuning: Tuning) -> None:
    tuning.submit()
    tuning.world.engine.forget_image(tuning.world.add_image(Behaviour()))

    tuning.run()

    assert tuning.world.state() is JobState.FAILED
    assert tuning.trials() == []


def test_cancel_ends_all_trials(tuning: Tuning) -> None:
    tuning.submit()
    tuning.world.settle()
    tuning.world.jobs.cancel("project", "job")

    tuning.run()

    assert tuning.world.state() is JobState.CANCELLED
    assert [trial.state for trial in tuning.trials()] == [JobState.CANCELLED] * 2
    assert tuning.world.engine.observe().job_uids == frozenset()


def test_limits_on_time_are_those_of_the_whole_job(tuning: Tuning) -> None:
    tuning.world.add_image(Behaviour(run_seconds=10))
    tuning.submit(job_id="other", max_trials=1)
    hyperparameters = tuning.world.get("other").training_input.hyperparameters  # type: ignore[union-attr]
    many = hyperparameters.model_copy(update={"max_trials": 100})  # type: ignore[union-attr]
    tuning.world.submit("limited", hyperparameters=many, scheduling={"max_running_time": "25s"})

    tuning.run()

    job = tuning.world.get("limited")
    assert job.state is JobState.CANCELLED
    assert "maxRunningTime" in str(job.error_message)
    assert [trial.state for trial in tuning.trials("limited")].count(JobState.SUCCEEDED) == 4


def test_a_tuning_job_keeps_its_place_in_the_queue(tuning: Tuning) -> None:
    tuning.world.max_replicas = 2
    tuning.world.restart()
    tuning.submit(max_trials=4)
    tuning.world.submit("younger")
    tuning.world.settle()

    tuning.world.engine.advance(10)
    tuning.report()
    tuning.world.settle()

    assert tuning.world.state("younger") is JobState.QUEUED
    tuning.run()
    assert tuning.world.state("younger") is JobState.SUCCEEDED


def test_a_grid_ends_when_it_is_used_up(tuning: Tuning) -> None:
    params = [
        ParameterSpec(parameter_name="a", type=ParameterType.INTEGER, min_value=1, max_value=2),
        ParameterSpec(parameter_name="b", type=ParameterType.CATEGORICAL, categorical_values=["x", "y"]),
    ]
    tuning.submit(params=params, algorithm=SearchAlgorithm.GRID_SEARCH, max_trials=100)

    tuning.run()

    tried = {tuple((trial.hyperparameters or {}).values()) for trial in tuning.trials()}
    assert tuning.world.state() is JobState.SUCCEEDED
    assert len(tuning.trials()) == 4
    assert tried == {("1", "x"), ("1", "y"), ("2", "x"), ("2", "y")}


@pytest.mark.extended
def test_a_killed_service_goes_on_with_the_same_suggestions(tmp_path: Path) -> None:
    def tried(name: str, *, is_killed: bool) -> list[object]:
        database = open_database(f"sqlite:///{tmp_path / name}.db")
        tuning = Tuning(World(database, max_replicas=8))
        tuning.score = lambda _, values: -abs(math.log10(float(values["lr"])) + 2)
        tuning.submit(max_parallel_trials=1, max_trials=12)
        while tuning.world.store.list_active():
            tuning.world.step()
            tuning.report()
            tuning.world.engine.advance(1)
            if is_killed:
                tuning.world.restart()
        database.dispose()
        return [trial.hyperparameters for trial in tuning.trials()]

    assert tried("undisturbed", is_killed=False) == tried("killed", is_killed=True)


def test_a_study_goes_on_from_an_earlier_one(tuning: Tuning) -> None:
    tuning.score = lambda _, values: -abs(math.log10(float(values["lr"])) + 2)
    tuning.submit("first")
    tuning.run()
    tuning.submit("second", resume_previous_job_id="first", max_trials=3)
    tuning.run()

    assert [trial.trial_id for trial in tuning.trials("second")] == ["7", "8", "9"]
    first = {(trial.hyperparameters or {})["lr"] for trial in tuning.trials("first")}
    assert not first & {(trial.hyperparameters or {})["lr"] for trial in tuning.trials("second")}


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        ({"resume_previous_job_id": "nothing"}, "resumePreviousJobId", "not found"),
        ({"resume_previous_job_id": "plain"}, "resumePreviousJobId", "no tuning job"),
        ({"hyperparameter_metric_tag": "loss"}, "hyperparameterMetricTag", "must be 'accuracy'"),
        ({"goal": Goal.MINIMIZE}, "goal", "must be MAXIMIZE"),
        (
            {"params": [LEARNING_RATE.model_copy(update={"parameter_name": "rate"})]},
            "params",
            "lr (DOUBLE); got rate (DOUBLE)",
        ),
    ],
)
def test_what_cannot_be_resumed_is_refused(
    tuning: Tuning, changes: dict[str, object], path: str, says: str
) -> None:
    tuning.submit("first", max_trials=1)
    tuning.world.submit("plain")
    tuning.run()

    with pytest.raises(InvalidJobSpec) as refused:
        tuning.submit("second", **({"resume_previous_job_id": "first"} | changes))  # type: ignore[arg-type]

    (violation,) = refused.value.violations
    assert violation.field == f"trainingInput.hyperparameters.{path}"
    assert says in violation.description


def bad_ones(number: int, place: int) -> float:
    """Every third trial after the first nine never gets anywhere."""
    end = 0.1 if number > 9 and number % 3 == 0 else 0.9 + number / 1000
    return end * (1 - 0.5**place)


@pytest.mark.extended
def test_trials_that_get_nowhere_are_stopped_and_have_succeeded(tuning: Tuning) -> None:
    tuning.curve = bad_ones
    tuning.submit(max_trials=60, max_parallel_trials=4, enable_trial_early_stopping=True)

    tuning.run(1000)

    stopped = [trial for trial in tuning.trials() if trial.is_trial_stopped_early]
    assert tuning.world.state() is JobState.SUCCEEDED
    assert stopped
    assert all(int(trial.trial_id or 0) % 3 == 0 for trial in stopped)
    assert all(trial.state is JobState.SUCCEEDED for trial in stopped)
    assert all(trial.final_metric for trial in stopped)
    assert tuning.world.get().training_output.completed_trial_count == 60  # type: ignore[union-attr]
    assert any("is stopped early" in message for message in tuning.world.messages())
    assert any(f"{len(stopped)} of 60 trials were stopped early" in each for each in tuning.world.messages())


def test_some_trials_are_spared_for_comparison(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_service.search.early_stopping.SHADOW_SHARE", 1.0)
    tuning.curve = bad_ones
    tuning.submit(max_trials=20, max_parallel_trials=4, enable_trial_early_stopping=True)

    tuning.run(1000)

    assert not [trial for trial in tuning.trials() if trial.is_trial_stopped_early]
    assert [message for message in tuning.world.messages() if "runs on for comparison" in message]


def test_nothing_is_stopped_unless_asked_for(tuning: Tuning) -> None:
    tuning.curve = bad_ones
    tuning.submit(max_trials=20, max_parallel_trials=4)

    tuning.run(1000)

    assert not [trial for trial in tuning.trials() if trial.is_trial_stopped_early]
