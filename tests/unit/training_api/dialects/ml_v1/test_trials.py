"""A tuning job's trials as a table, its best one, and the line that says how far it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.fake_service import EPOCH, make_job
from tests.support.fakes.tuning_jobs import make_trial, make_tuning_job
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.ml_v1.trials import best_trial, progress_line, study_result, trial_line, trial_rows
from training_api.job.results import StudyResult, TrialRow
from training_api.job.tuning.search_terms import Goal
from training_api.states import JobState

NOW = EPOCH + timedelta(seconds=100)


def study(job: Job, **options: Any) -> StudyResult:
    result = study_result(job, NOW, **options)
    assert result is not None
    return result


def row(number: int, objective: float | None, state: JobState = JobState.SUCCEEDED) -> TrialRow:
    return TrialRow(
        trial_id=str(number),
        state=state,
        is_stopped_early=False,
        objective=objective,
        step=1,
        seconds=1.0,
        ended_at=EPOCH,
        hyperparameters={},
        cost=None,
    )


def test_a_row_has_what_the_service_shows_of_the_trial() -> None:
    (only,) = trial_rows(make_tuning_job(make_trial(3, 0.91, start=5, seconds=20)), NOW, 0.5)

    assert only == TrialRow(
        trial_id="3",
        state=JobState.SUCCEEDED,
        is_stopped_early=False,
        objective=0.91,
        step=30,
        seconds=20.0,
        ended_at=EPOCH + timedelta(seconds=25),
        hyperparameters={"lr": "0.03", "units": "64", "optimizer": "adam"},
        cost=10.0,
    )


def test_a_running_trial_has_run_until_now_and_one_that_waits_not_at_all() -> None:
    waiting = make_trial(2, None, state="QUEUED", seconds=None)
    del waiting["startTime"]

    rows = trial_rows(
        make_tuning_job(make_trial(1, None, state="RUNNING", start=40, seconds=None), waiting), NOW, 2.0
    )

    assert [(one.seconds, one.cost) for one in rows] == [(60.0, 120.0), (None, 0.0)]


def test_rows_are_in_the_order_of_their_numbers() -> None:
    rows = trial_rows(make_tuning_job(*(make_trial(number, 0.5) for number in (10, 2, 1))), NOW)

    assert [one.trial_id for one in rows] == ["1", "2", "10"]


@pytest.mark.parametrize(("goal", "best"), [(Goal.MAXIMIZE, "2"), (Goal.MINIMIZE, "1")])
def test_the_best_trial_follows_the_goal_and_of_equal_ones_is_the_earlier(goal: Goal, best: str) -> None:
    rows = [row(1, 0.1), row(2, 0.9), row(3, 0.9), row(4, 0.1)]

    found = best_trial(rows, goal)

    assert found is not None
    assert found.trial_id == best


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_an_objective_that_is_no_number_is_none_and_never_the_best(value: str) -> None:
    job = make_tuning_job(make_trial(1, value), make_trial(2, 0.1))

    result = study(job)

    assert result.trials[0].objective is None
    assert result.best is not None
    assert result.best.trial_id == "2"


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "RUNNING", "CANCELLING"])
def test_a_trial_without_an_end_of_its_own_is_not_the_best_whatever_it_reported(state: str) -> None:
    job = make_tuning_job(make_trial(1, 0.99, state=state), make_trial(2, 0.5))

    best = study(job).best

    assert best is not None
    assert best.trial_id == "2"


@pytest.mark.parametrize("state", ["SUCCEEDED", "CANCELLED"])
def test_a_trial_that_was_stopped_early_counts_whatever_its_state_is_called(state: str) -> None:
    result = study(make_tuning_job(make_trial(1, 0.7, state=state, isTrialStoppedEarly=True)))

    assert (result.completed, result.stopped_early, result.cancelled) == (1, 1, 0)
    assert result.best is not None
    assert result.best.objective == 0.7


@given(
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), max_size=8),
    st.sampled_from([Goal.MAXIMIZE, Goal.MINIMIZE]),
)
def test_no_trial_is_better_than_the_best(objectives: list[float | None], goal: Goal) -> None:
    rows = [row(number, objective) for number, objective in enumerate(objectives, 1)]

    best = best_trial(rows, goal)

    known = [objective for objective in objectives if objective is not None]
    extreme = min if goal is Goal.MINIMIZE else max
    assert (best.objective if best else None) == (extreme(known) if known else None)
    if best:
        assert int(best.trial_id) == objectives.index(best.objective) + 1


def test_the_best_trial_says_where_it_is_and_how_to_train_it_again() -> None:
    best = study(make_tuning_job(make_trial(7, 0.981))).best

    assert best is not None
    assert best.job_dir == "gs://bucket/jobs/digits_1/7"
    assert best.args == ["--lr=0.07", "--units=64", "--optimizer=adam"]
    assert best.model_uri is None


def test_the_progress_line_counts_trials_and_names_the_best() -> None:
    trials = [make_trial(number, 0.9 + number / 1000) for number in range(1, 13)]
    trials += [make_trial(13, None, state="FAILED")]
    trials += [make_trial(number, None, state="RUNNING", seconds=None) for number in range(14, 18)]

    line = progress_line(study(make_tuning_job(*trials)))

    assert line == "trials: 12 done, 4 running, 1 failed of 50; best accuracy 0.912 (trial 12)"


def test_the_progress_line_has_stopped_and_cancelled_trials_where_there_are_any() -> None:
    job = make_tuning_job(
        make_trial(1, 0.5, isTrialStoppedEarly=True),
        make_trial(2, 0.6),
        make_trial(3, None, state="CANCELLED"),
    )

    line = progress_line(study(job))

    assert (
        line
        == "trials: 2 done (1 stopped early), 0 running, 0 failed, 1 cancelled of 50; best accuracy 0.6 (trial 2)"
    )


def test_before_the_first_result_the_line_says_what_is_waited_for() -> None:
    job = make_tuning_job(search={"hyperparameterMetricTag": None, "maxTrials": None})

    assert (
        progress_line(study(job))
        == "trials: 0 done, 0 running, 0 failed of 1; no training/hptuning/metric yet"
    )


def test_a_service_that_counts_more_trials_than_it_lists_is_believed() -> None:
    job = make_tuning_job(training_output={"completedTrialCount": "9"})

    assert study(job).completed == 9


def test_of_too_many_trials_the_table_keeps_the_best_in_their_order() -> None:
    objectives = [0.5, 0.9, 0.1, 0.8]
    trials = [make_trial(number, objective) for number, objective in enumerate(objectives, 1)]

    result = study(
        make_tuning_job(*trials, make_trial(5, None, state="FAILED"), search={"goal": "MINIMIZE"}),
        max_trials=2,
    )

    assert [one.trial_id for one in result.trials] == ["1", "3"]
    assert result.trials_left_out == 3


def test_a_job_that_does_not_tune_has_no_study() -> None:
    assert study_result(make_job(), NOW) is None


def test_the_line_of_a_trial_says_how_it_ended() -> None:
    good, bad = trial_rows(
        make_tuning_job(
            make_trial(1, 0.5, isTrialStoppedEarly=True),
            make_trial(2, None, state="FAILED", hyperparameters={}),
        ),
        NOW,
    )

    assert (
        trial_line(good)
        == "trial 1: 0.5 at step 30, SUCCEEDED, stopped early, 10.0 s, lr=0.01 units=64 optimizer=adam"
    )
    assert trial_line(bad) == "trial 2: no result, FAILED, 10.0 s, "
