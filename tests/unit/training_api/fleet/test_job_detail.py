"""What is told of one job, as it travels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from training_api.fleet.job_detail import StudyView, TrialView, trial_rows
from training_api.job.tuning.search_terms import Condition, Goal, ParameterKind, ScaleType, SearchParameter
from training_api.job.tuning.study_spec import StudySpec
from training_api.states import JobState

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "parameter",
    [
        SearchParameter(name="rate", kind=ParameterKind.DOUBLE, low=1e-3, high=1, scale=ScaleType.LOG),
        SearchParameter(name="units", kind=ParameterKind.INTEGER, low=1, high=64, scale=ScaleType.LINEAR),
        SearchParameter(name="kind", kind=ParameterKind.CATEGORICAL, values=("adam", "1")),
        SearchParameter(name="batch", kind=ParameterKind.DISCRETE, values=(0.25, 32.0)),
        SearchParameter(
            name="rate",
            kind=ParameterKind.DOUBLE,
            high=1,
            condition=Condition(parent="kind", values=("adam", "1")),
        ),
        SearchParameter(
            name="rate", kind=ParameterKind.DOUBLE, high=1, condition=Condition(parent="units", values=(1, 3))
        ),
    ],
)
def test_a_study_is_the_same_on_the_other_side(parameter: SearchParameter) -> None:
    study = StudySpec(parameters=(parameter,), goal=Goal.MINIMIZE, metric_tag="loss", max_trials=3)

    assert StudyView.model_validate(StudyView.of(study).to_wire()).spec == study


def test_a_trial_that_runs_has_run_until_now_and_costs_that() -> None:
    trial = TrialView(trial_id="1", state=JobState.RUNNING, parameters={"a": "1"}, start_time=NOON)

    (row,) = trial_rows([trial], NOON + timedelta(seconds=30), 0.5)

    assert (row.seconds, row.cost, row.ended_at, row.is_done) == (30, 15, None, False)


def test_a_trial_that_has_not_begun_has_no_seconds() -> None:
    (row,) = trial_rows([TrialView(trial_id="1", state=JobState.QUEUED)], NOON)

    assert (row.seconds, row.cost) == (None, None)
