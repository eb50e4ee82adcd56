"""Which trials run on to judge early stopping, and what is reported of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.job.tuning.search_terms import Goal
from training_service.search.early_stopping import (
    SHADOW_SHARE,
    Ending,
    TrialOutcome,
    early_stopping_report,
    is_shadow,
)

UP, DOWN = Goal.MAXIMIZE, Goal.MINIMIZE


def test_a_few_per_cent_of_the_trials_are_shadows_and_always_the_same() -> None:
    drawn = [is_shadow(seed, trial) for seed in range(20) for trial in range(1, 1001)]

    assert drawn == [is_shadow(seed, trial) for seed in range(20) for trial in range(1, 1001)]
    assert sum(drawn) / len(drawn) == pytest.approx(SHADOW_SHARE, abs=0.005)
    assert [trial for trial in range(1, 101) if is_shadow(7, trial)] != [
        trial for trial in range(1, 101) if is_shadow(8, trial)
    ]


# --- the report


def outcome(ending: Ending, seconds: float, final_value: float | None = None) -> TrialOutcome:
    return TrialOutcome(ending=ending, seconds=seconds, final_value=final_value)


def test_the_report_says_what_was_saved_and_what_the_shadows_found() -> None:
    trials = [
        outcome(Ending.COMPLETED, 100, 0.9),
        outcome(Ending.COMPLETED, 60, 0.8),
        outcome(Ending.SHADOW, 80, 0.95),
        outcome(Ending.SHADOW, 80, 0.1),
        outcome(Ending.STOPPED, 20, 0.2),  # 80, 40, 60 and 60 s less than the others: 60 s
        outcome(Ending.STOPPED, 90, 0.2),  # 10 s less than the only longer one
    ]

    report = early_stopping_report(trials, UP)

    assert (report.trials, report.stopped, report.shadows, report.false_stops) == (6, 2, 2, 1)
    assert report.saved_seconds == 70
    assert report.saved_share == pytest.approx(70 / 500)
    assert report.false_stop_rate == 0.5
    assert report.false_stop_interval == pytest.approx((0.0945, 0.9055), abs=1e-4)
    assert report.text == (
        "2 of 6 trials were stopped early, which saved about 70 s, 14% of the time of all trials; of 2 that were to be "
        "stopped and ran on, 1 ended among the best: an estimated false-stop rate of 50% (9% to 91% with 95 % confidence)"
    )


def test_the_best_are_the_smallest_when_minimizing_and_a_tenth_of_all_ends() -> None:
    ends = [outcome(Ending.COMPLETED, 10, float(value)) for value in range(3, 21)]
    shadows = [outcome(Ending.SHADOW, 10, 2.0), outcome(Ending.SHADOW, 10, 19.5)]

    assert early_stopping_report([*ends, *shadows], DOWN).false_stops == 1
    assert early_stopping_report([*ends, *shadows], UP).false_stops == 1
    assert early_stopping_report([*ends, shadows[0]], UP).false_stops == 0


def test_a_report_without_shadows_owns_that_it_does_not_know() -> None:
    report = early_stopping_report([outcome(Ending.STOPPED, 5), outcome(Ending.COMPLETED, 3, 0.1)], UP)

    assert report.saved_seconds == 0  # no completed trial was longer
    assert report.false_stop_rate is None
    assert report.false_stop_interval == (0.0, 1.0)
    assert report.text.endswith("so that the rate of false stops is not known")


@given(
    trials=st.lists(
        st.builds(
            TrialOutcome,
            ending=st.sampled_from(Ending),
            seconds=st.floats(0, 1e9),
            final_value=st.none() | st.floats(),
        )
    ),
    goal=st.sampled_from([UP, DOWN]),
)
def test_any_study_has_a_report(trials: list[TrialOutcome], goal: Goal) -> None:
    report = early_stopping_report(trials, goal)

    low, high = report.false_stop_interval
    assert 0 <= low <= high <= 1
    assert report.false_stop_rate is None or low <= report.false_stop_rate <= high
    assert 0 <= report.saved_share < 1
    assert 0 <= report.false_stops <= report.shadows
    assert report.text
