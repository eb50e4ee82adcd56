"""The machine's speed: given by the run, or measured once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from tests.support import speed


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process knows of the machine is neither seen nor changed."""
    monkeypatch.setattr(speed, "slowness", cache(speed.slowness.__wrapped__))
    monkeypatch.delenv(speed.VARIABLE, raising=False)
    monkeypatch.delenv(speed.PARTS_VARIABLE, raising=False)


def clock_of(*taken: float) -> Iterator[float]:
    """Yield the times of a clock before and after each of the measurements."""
    now = 100.0
    for seconds in taken:
        yield now
        yield (now := now + seconds)


@pytest.mark.parametrize(
    ("taken", "expected"), [((1, 1, 1), 1), ((1, 3, 2), 2), ((9, 1, 1), 1), ((0.5, 0.5, 0.5), 1)]
)
def test_slowness_is_the_median_start_over_that_of_an_idle_machine(
    taken: tuple[float, ...], expected: float
) -> None:
    times = clock_of(*(seconds * speed.REFERENCE_SECONDS for seconds in taken))
    starts: list[None] = []

    found = speed.measure(lambda: starts.append(None), times.__next__)

    assert found == pytest.approx(expected)
    assert len(starts) == len(taken)


@pytest.mark.parametrize(("given", "expected"), [("2.5", 2.5), ("1", 1.0), ("0.3", 1.0)])
def test_what_the_run_measured_is_taken(monkeypatch: pytest.MonkeyPatch, given: str, expected: float) -> None:
    monkeypatch.setenv(speed.VARIABLE, given)
    monkeypatch.setattr(speed, "measure", lambda: pytest.fail("measured again"))

    assert speed.slowness() == expected
    assert speed.scaled(60) == 60 * expected


@pytest.mark.parametrize(
    ("parts", "cores", "expected"), [(1, 1, 1), (3, 2, 2), (2, 2, 1), (3, 16, 1), (3, 1, 3)]
)
def test_parts_that_share_cores_have_longer_deadlines(
    monkeypatch: pytest.MonkeyPatch, parts: int, cores: int, expected: int
) -> None:
    monkeypatch.setenv(speed.VARIABLE, "1.5")
    monkeypatch.setenv(speed.PARTS_VARIABLE, str(parts))
    monkeypatch.setattr("os.cpu_count", lambda: cores)

    assert speed.scaled(10) == 15 * expected


def test_a_factor_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(speed.VARIABLE, "slow")

    with pytest.raises(ValueError, match="slow"):
        speed.slowness()


def test_without_one_it_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter([4.0])
    monkeypatch.setattr(speed, "measure", lambda: next(measured))

    assert [speed.slowness(), speed.slowness(), speed.scaled(10)] == [4.0, 4.0, 40.0]


@pytest.mark.parametrize(("factor", "expected"), [("1.5", 15), ("3", 30), ("8", 30)])
def test_a_limit_that_is_waited_for_has_a_bound(
    factor: str, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(speed.VARIABLE, factor)

    assert speed.drawn_out(10) == expected
