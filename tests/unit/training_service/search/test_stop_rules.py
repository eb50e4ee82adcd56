"""When a trial is stopped before its end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.search.early_stopping import (
    FAMILIES,
    MAX_FALSE_STOPS,
    MAX_LOST,
    both_rules,
    median_only,
    run_study,
)
from training_api.job.tuning.search_terms import Goal, Stopping
from training_service.search.early_stopping import Curve, Point, StopRule
from training_service.search.stop_rules import should_stop, stop_reason, tracks_of

UP, DOWN = Goal.MAXIMIZE, Goal.MINIMIZE
NAN = math.nan


def curve(values: Iterable[float], *, steps: Sequence[int] | None = None) -> list[Point]:
    """Return a curve; by default a report a step, from step 1, ten seconds apart."""
    return [
        Point(step=steps[index] if steps else index + 1, value=value, seconds=10.0 * (index + 1))
        for index, value in enumerate(values)
    ]


def flat(value: float, length: int = 10) -> list[Point]:
    return curve([value] * length)


def rising(end: float, length: int = 10) -> list[Point]:
    """Return a straight curve from ``end / length`` to ``end``."""
    return curve([end * (index + 1) / length for index in range(length)])


# --- the median rule


def test_a_trial_below_the_median_of_the_averages_is_stopped_with_the_figures() -> None:
    completed = [flat(value) for value in (0.1, 0.2, 0.5, 0.6, 0.7)]

    reason = should_stop(flat(0.3, 3), completed, UP)

    assert reason is not None
    assert reason.rule is StopRule.MEDIAN
    assert str(reason) == (
        "its best value by step 3, 0.3, is worse than 0.5, the median of the averages of 5 completed trials by then"
    )


@pytest.mark.parametrize("values", [[0.5, 0.1, 0.1], [0.1, 0.1, 0.5], [0.1, 0.1, 0.6]])
def test_its_best_value_counts_and_a_tie_with_the_median_is_no_reason(values: list[float]) -> None:
    completed = [flat(value) for value in (0.1, 0.2, 0.5, 0.6, 0.7)]

    assert should_stop(curve(values), completed, UP) is None


def test_others_are_averaged_up_to_the_trials_own_step_only() -> None:
    completed = [rising(value) for value in (0.8, 0.85, 0.9, 0.95, 1.0)]

    assert (
        should_stop(rising(0.7, 10)[:3], completed, UP) is None
    )  # 0.21, and the averages by then are 0.16 to 0.2
    assert should_stop(rising(0.4, 10)[:3], completed, UP) is not None  # 0.12


def test_steps_that_do_not_align_are_compared_where_they_lie() -> None:
    completed = [
        curve([0.1, 0.2, value], steps=[7, 19, 1000]) for value in (0.6, 0.7, 0.8, 0.9, 1.0)
    ]  # an average of 0.15 by step 20

    assert should_stop(curve([0.0, 0.1, 0.16], steps=[4, 11, 20]), completed, UP) is None
    assert should_stop(curve([0.0, 0.1, 0.14], steps=[4, 11, 20]), completed, UP) is not None


def test_trials_that_began_to_report_later_say_nothing() -> None:
    late = [curve([0.9, 0.9, 0.9], steps=[100, 200, 300])] * 9

    assert should_stop(flat(0.1, 3), late, UP) is None


@pytest.mark.parametrize("goal", [UP, DOWN])
def test_the_goal_says_which_way_is_worse(goal: Goal) -> None:
    completed = [flat(value) for value in (0.1, 0.2, 0.5, 0.6, 0.7)]

    assert (should_stop(flat(0.3, 3), completed, goal) is None) is (goal is DOWN)
    assert (should_stop(flat(0.55, 3), completed, goal) is None) is (goal is UP)


# --- the forecast


def test_a_trial_that_cannot_catch_up_is_stopped_though_it_is_above_the_median() -> None:
    completed = [rising(0.2 + 0.05 * index, 20) for index in range(15)]

    reason = should_stop(rising(0.7, 20)[:10], completed, UP)

    assert reason is not None
    assert reason.rule is StopRule.FORECAST
    assert reason.text.startswith("with 0.35 at step 10, its chance to end better than the best, 0.9, is ")
    assert reason.text.endswith("%, less than 1%")


def test_a_slow_start_is_spared_where_slow_starters_have_won() -> None:
    fast = [curve([0.5 + 0.01 * i] * 3 + [0.6 + 0.01 * i] * 17) for i in range(6)]
    slow = [curve([0.1 + 0.01 * i] * 3 + [0.2] * 5 + [0.9 + 0.01 * i] * 12) for i in range(4)]

    assert median_only(curve([0.12] * 3), [*fast, *slow])
    assert should_stop(curve([0.12] * 3), [*fast, *slow], UP) is None


def test_a_curve_that_has_run_longer_than_all_others_is_no_matter_of_forecasts() -> None:
    completed = [flat(0.5 + 0.01 * index, 5) for index in range(12)]

    assert should_stop(flat(0.58, 9), completed, UP) is None


# --- too little, or nothing to compare


@pytest.mark.parametrize(
    ("trial", "completed"),
    [
        ([], [flat(1.0)] * 9),
        (flat(0.0, 2), [flat(1.0)] * 9),
        (curve([0.0, NAN, math.inf, -math.inf, 0.0]), [flat(1.0)] * 9),
        (flat(0.0), [flat(1.0)] * 4),
        (flat(0.0), []),
        (flat(0.0), [flat(1.0)] * 4 + [flat(NAN), [], flat(math.inf)]),
        (flat(1.0), [flat(1.0)] * 9),
        (curve([NAN] * 5), [flat(1.0)] * 9),
    ],
)
def test_a_trial_goes_on_while_there_is_too_little_to_compare(trial: Curve, completed: list[Curve]) -> None:
    assert should_stop(trial, completed, UP) is None


def test_a_single_point_of_others_counts_in_the_median() -> None:
    completed = [flat(value, 1) for value in (0.1, 0.2, 0.5, 0.6, 0.7)]

    assert should_stop(flat(0.3, 3), completed, UP) is not None


def test_curves_without_steps_are_compared_by_seconds() -> None:
    completed = [curve([value] * 10, steps=[0] * 10) for value in (0.1, 0.2, 0.5, 0.6, 0.7)]

    reason = should_stop(curve([0.3] * 4, steps=[0] * 4), completed, UP)

    assert reason is not None
    assert "by 40 s, 0.3" in reason.text


def test_a_step_that_is_repeated_after_a_restart_counts_once_with_its_later_value() -> None:
    completed = [flat(value) for value in (0.1, 0.2, 0.5, 0.6, 0.7)]
    restarted = curve([0.9, 0.3, 0.3, 0.3, 0.3], steps=[1, 2, 1, 2, 3])

    reason = should_stop(restarted, completed, UP)

    assert reason is not None
    assert "by step 3, 0.3" in reason.text


def test_reports_out_of_order_are_put_in_order() -> None:
    completed = [curve([value] * 10, steps=range(5, 55, 5)) for value in (0.1, 0.2, 0.5, 0.6, 0.7)]

    reason = should_stop(curve([0.1, 0.3, 0.2, 0.2], steps=[10, 20, 5, 15]), completed, UP)

    assert reason is not None
    assert "by step 20, 0.3" in reason.text


def test_a_trial_that_was_the_best_for_a_moment_goes_on() -> None:
    completed = [rising(0.2 + 0.05 * index, 20) for index in range(15)]

    assert should_stop(curve([0.1, 0.91, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]), completed, UP) is None
    assert should_stop(curve([0.1, 0.8, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]), completed, UP) is not None


# --- whatever is reported

_values = st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
_points = st.builds(
    Point,
    step=st.integers(0, 20) | st.integers(-(2**63) + 1, 2**63 - 1),
    value=_values,
    seconds=st.floats(0, 1e6),
)
_curves = st.lists(_points, max_size=12)
_regular = st.lists(st.floats(-10, 10), min_size=3, max_size=12).map(curve)


@pytest.mark.extended
@settings(max_examples=300, deadline=None)
@given(trial=_curves | _regular, completed=st.lists(_curves | _regular, max_size=12))
def test_the_best_so_far_is_never_stopped(trial: Curve, completed: list[Curve]) -> None:
    finite = [point.value for each in completed for point in each if math.isfinite(point.value)]
    own = [point.value for point in trial if math.isfinite(point.value)]
    best = max([*finite, *own], default=0.0)

    assert should_stop([*trial, Point(step=2**63 - 1, value=best, seconds=2e6)], completed, UP) is None
    assert should_stop([Point(step=-(2**64), value=best, seconds=-1.0), *trial], completed, UP) is None


@pytest.mark.extended
@settings(max_examples=300, deadline=None)
@given(trial=_curves | _regular, completed=st.lists(_curves | _regular, max_size=12))
def test_the_goal_and_the_sign_turned_over_together_change_nothing(
    trial: Curve, completed: list[Curve]
) -> None:
    def negated(each: Curve) -> Curve:
        return [Point(step=point.step, value=-point.value, seconds=point.seconds) for point in each]

    up = should_stop(trial, completed, UP)
    down = should_stop(negated(trial), [negated(each) for each in completed], DOWN)

    assert (up is None) == (down is None)
    assert up is None or down is None or up.rule is down.rule


@settings(max_examples=200, deadline=None)
@given(trial=_regular, completed=st.lists(_regular, min_size=5, max_size=12), data=st.data())
def test_the_order_of_the_completed_trials_does_not_matter(
    trial: Curve, completed: list[Curve], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(completed))

    one, other = should_stop(trial, completed, UP), should_stop(trial, shuffled, UP)

    assert (one is None) == (other is None)


# --- what it costs, on curves whose ends are known


@pytest.mark.extended
@pytest.mark.parametrize("name", FAMILIES)
def test_few_of_the_stopped_trials_would_have_been_among_the_best(name: str) -> None:
    ours = [run_study(FAMILIES[name], seed, both_rules) for seed in range(100, 110)]
    median = [run_study(FAMILIES[name], seed, median_only) for seed in range(100, 103)]

    assert statistics.fmean(result.false_stops for result in ours) <= MAX_FALSE_STOPS
    assert statistics.fmean(result.lost for result in ours) <= MAX_LOST
    assert statistics.median(result.used for result in ours) <= 60
    assert statistics.median(result.used for result in ours) < statistics.median(r.used for r in median)


# --- the median rule alone, as a study may ask for it


def median_stop(
    trial: Curve, completed: Sequence[Curve], goal: Goal = UP, *, by_seconds: bool = False
) -> str | None:
    found = stop_reason(
        tracks_of(trial, goal),
        [tracks_of(each, goal) for each in completed],
        goal,
        Stopping.MEDIAN,
        by_seconds=by_seconds,
    )
    return found.text if found else None


def test_the_median_rule_compares_the_best_value_with_running_averages() -> None:
    """Averages by step 3: 0.1, 0.2, 0.3, 0.4, 0.5, with 0.3 in the middle."""
    completed = [curve([level] * 3 + [9.0] * 3) for level in (0.1, 0.2, 0.3, 0.4, 0.5)]

    assert median_stop(curve([0.29, 0.1, 0.1]), completed) == (
        "its best value by step 3, 0.29, is worse than 0.3, the median of the averages of 5 completed trials by then"
    )
    assert median_stop(curve([0.3, 0.1, 0.1]), completed) is None  # "strictly below"


def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle() -> None:
    """Averages: 0.1 to 0.6; the median is 0.35."""
    completed = [flat(level / 10) for level in range(1, 7)]

    assert median_stop(flat(0.34, 3), completed) is not None
    assert median_stop(flat(0.36, 3), completed) is None


def test_the_median_rule_stops_what_a_forecast_would_spare() -> None:
    """By step 3 the median of the averages is 0.2, the trial has 0.15, and there is hope."""
    fast = [curve([0.2, 0.2, 0.2, *([0.3] * 7)]) for _ in range(5)]
    slow = [curve([0.05, 0.1, 0.15, *([0.9] * 7)]) for _ in range(4)]
    trial = curve([0.05, 0.1, 0.15])

    assert should_stop(trial, [*fast, *slow], UP) is None
    assert median_stop(trial, [*fast, *slow]) is not None


def test_the_median_rule_stops_a_trial_that_is_better_than_all_ends() -> None:
    """The others fell from 1 to 0.1, which averages 0.7 by step 3."""
    completed = [curve([1.0, 1.0, 0.1, 0.1]) for _ in range(5)]

    assert median_stop(flat(0.5, 3), completed) is not None


def test_the_median_rule_minimizes() -> None:
    completed = [flat(level) for level in (0.1, 0.2, 0.3, 0.4, 0.5)]

    assert median_stop(flat(0.31, 3), completed, DOWN) is not None
    assert median_stop(flat(0.29, 3), completed, DOWN) is None


def test_curves_are_compared_by_seconds_where_that_is_asked_for() -> None:
    """
    The trial is at step 30 after 30 s.

    By then the others are at step 3, with averages of 0.1 to 0.5; by step 30 all of them have 0.9 and more.
    """
    completed = [curve([level] * 3 + [1.0] * 97, steps=range(1, 101)) for level in (0.1, 0.2, 0.3, 0.4, 0.5)]
    trial = curve([0.35] * 3, steps=[10, 20, 30])

    assert median_stop(trial, completed, by_seconds=False) is not None
    assert median_stop(trial, completed, by_seconds=True) is None
    below = curve([0.29] * 3, steps=[10, 20, 30])
    assert median_stop(below, completed, by_seconds=True) == (
        "its best value by 30 s, 0.29, is worse than 0.3, the median of the averages of 5 completed trials by then"
    )


def test_the_median_rule_waits_for_five_trials_and_three_reports() -> None:
    completed = [flat(0.9)] * 5

    assert median_stop(flat(0.1, 3), completed[:4]) is None
    assert median_stop(flat(0.1, 2), completed) is None
    assert median_stop(flat(0.1, 3), completed) is not None
