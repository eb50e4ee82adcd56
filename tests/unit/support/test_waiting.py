"""Waiting in tests, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import waiting
from tests.support.waiting import wait_until, wait_until_async


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, condition: Callable[[], Any], seconds: float = 10.0, **options: Any) -> Any:
        return wait_until(
            condition, "it is done", seconds=seconds, clock=self.time, sleep=self.sleep, **options
        )


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is three times as slow as an idle one."""
    monkeypatch.setattr(waiting, "scaled", lambda seconds: 3 * seconds)


def test_the_first_truthy_value_is_returned() -> None:
    clock, values = Clock(), iter([None, 0, "", "done", "later"])

    assert clock.wait(lambda: next(values)) == "done"
    assert next(values) == "later"


def test_the_pauses_grow_up_to_the_one_that_was_asked_for() -> None:
    clock = Clock()
    times: list[float] = []

    def is_the_seventh() -> bool:
        times.append(clock.now - 1000)
        return len(times) == 7

    clock.wait(is_the_seventh, poll_seconds=0.01)

    assert times == pytest.approx([0, 0.002, 0.006, 0.014, 0.024, 0.034, 0.044])


def test_the_deadline_follows_the_machines_speed() -> None:
    clock = Clock()

    assert clock.wait(lambda: clock.now >= 1029.5, seconds=10)
    with pytest.raises(AssertionError, match=r"^waited 30 s until it is done; last: False$"):
        clock.wait(lambda: False, seconds=10)


def test_errors_that_mean_not_yet_are_ignored_and_the_last_one_is_shown() -> None:
    attempts = iter([KeyError("a"), KeyError("b")])

    def comes_up() -> str:
        if error := next(attempts, None):
            raise error
        return "up"

    def refused() -> bool:
        raise ConnectionError("refused")

    assert Clock().wait(comes_up, ignoring=LookupError) == "up"
    with pytest.raises(AssertionError, match=r"last: ConnectionError\('refused'\)$") as raised:
        Clock().wait(refused, ignoring=(OSError, LookupError))
    assert isinstance(raised.value.__cause__, ConnectionError)


def test_any_other_error_ends_the_wait_at_once() -> None:
    clock = Clock()

    def ended_otherwise() -> bool:
        raise AssertionError("the job has failed")

    with pytest.raises(AssertionError, match="the job has failed"):
        clock.wait(ended_otherwise, ignoring=OSError)
    assert clock.now == 1000


def test_a_process_that_was_stopped_past_its_deadline_looks_once_more() -> None:
    clock = Clock()
    values = iter([False, True])

    assert clock.wait(lambda: next(values), seconds=1, poll_seconds=1000)


def test_other_tasks_run_while_one_waits() -> None:
    async def follow() -> list[int]:
        seen: list[int] = []
        asyncio.get_running_loop().call_soon(seen.append, 1)
        return await wait_until_async(lambda: seen, "the other task has run", poll_seconds=0)

    assert asyncio.run(follow()) == [1]
