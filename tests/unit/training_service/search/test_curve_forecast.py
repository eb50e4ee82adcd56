"""What a curve's end is guessed to be, from those of others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from training_service.search.curve_forecast import MIN_TRIALS, Track, chance_to_exceed


def track(values: Iterable[float]) -> Track:
    found = np.array(list(values), dtype=np.float64)
    return Track(places=np.arange(1.0, len(found) + 1), values=found)


def test_a_curve_among_its_like_is_as_good_as_its_slope() -> None:
    completed = [track(np.linspace(0, end, 20)) for end in np.linspace(0.4, 0.8, 20)]

    chances = [
        chance_to_exceed(0.7, track(np.linspace(0, end, 20)[:10]), completed)
        for end in (0.5, 0.69, 0.71, 0.9)
    ]

    assert chances == sorted(chances, key=lambda chance: chance or 0.0)
    assert chances[0] is not None
    assert chances[0] < 0.01
    assert chances[1] is not None
    assert chances[2] is not None
    assert chances[1] < 0.5 < chances[2]
    assert chances[3] is not None
    assert chances[3] > 0.99


def test_a_sudden_gain_that_one_in_twenty_has_had_is_as_likely_again() -> None:
    flat = [track([0.5 + 0.001 * index] * 20) for index in range(38)]
    risen = [track([0.5] * 15 + [0.9] * 5)] * 2

    assert chance_to_exceed(0.75, track([0.51] * 10), [*flat, *risen]) == 0.05


@pytest.mark.parametrize("factor", [1e-3, 1e6])
def test_the_unit_of_the_metric_does_not_matter(factor: float) -> None:
    random = np.random.default_rng(0)
    curves = random.normal(0.02, 0.1, (12, 30)).cumsum(axis=1)

    plain = chance_to_exceed(0.5, track(curves[0][:20]), [track(each) for each in curves[1:]])
    scaled = chance_to_exceed(
        0.5 * factor + 7,
        track(curves[0][:20] * factor + 7),
        [track(each * factor + 7) for each in curves[1:]],
    )

    assert plain == pytest.approx(scaled, rel=1e-4)


def test_little_noise_makes_it_surer() -> None:
    random = np.random.default_rng(1)
    ends = np.linspace(0.4, 0.8, 30)

    def chance(noise: float) -> float:
        curves = [track(np.linspace(0, end, 20) + random.normal(0, noise, 20)) for end in ends]
        return chance_to_exceed(0.8, track(np.linspace(0, 0.6, 20)[:10]), curves) or 0.0

    assert chance(0.001) < chance(0.05) < chance(0.3)


@pytest.mark.parametrize(
    "completed",
    [
        [track([0.1, 0.2, 0.3, 0.4])] * (MIN_TRIALS - 1),
        [track([0.1, 0.2, 0.3 + 0.01 * index]) for index in range(MIN_TRIALS)],  # ended before
        [track([0.1, 0.2, 0.3, 0.4])] * MIN_TRIALS,  # end alike
        [],
    ],
)
def test_nothing_is_guessed_from_too_few_trials_or_from_equal_ends(completed: list[Track]) -> None:
    assert chance_to_exceed(0.4, track([0.0, 0.1, 0.1, 0.1]), completed) is None
