"""The thread of upkeep: what fails stops nothing else, and is repeated."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.speed import scaled
from training_service.upkeep import keeper as keeper_module
from training_service.upkeep.keeper import Keeper
from training_service.upkeep.tasks import Step


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_SECONDS", "_RETRY_SECONDS", "_STEP_PAUSE_SECONDS"):
        monkeypatch.setattr(keeper_module, name, 0.001)


def steps() -> Iterator[Step]:
    yield "rows", 2
    yield "rows", 3


def test_each_task_is_run_and_what_it_removes_is_counted() -> None:
    removed: Counter[str] = Counter()
    keeper = Keeper({"one": steps, "two": steps}, on_removed=lambda kind, n: removed.update({kind: n}))

    assert keeper.work()
    assert removed == {"rows": 10}


def test_a_task_that_fails_is_counted_and_stops_no_other() -> None:
    def failing() -> Iterator[Step]:
        yield "rows", 1
        raise OSError("database or disk is full")

    errors: list[str] = []
    removed: Counter[str] = Counter()
    keeper = Keeper(
        {"bad": failing, "good": steps},
        on_removed=lambda kind, number: removed.update({kind: number}),
        on_error=errors.append,
    )

    assert not keeper.work()
    assert errors == ["bad"]
    assert removed == {"rows": 6}


def test_the_thread_outlives_failures_and_tries_again() -> None:
    runs = 0
    enough = threading.Event()

    def failing() -> Iterator[Step]:
        nonlocal runs
        runs += 1
        if runs == 3:
            enough.set()
        raise OSError("database or disk is full")
        yield "rows", 1

    keeper = Keeper({"bad": failing})
    keeper.start()

    assert enough.wait(scaled(60))
    keeper.stop()


def test_a_stop_ends_it_between_two_steps() -> None:
    taken: list[int] = []

    def endless() -> Iterator[Step]:
        while True:
            taken.append(1)
            if len(taken) == 3:
                keeper.stop()
            yield "rows", 1

    keeper = Keeper({"endless": endless})

    assert keeper.work()
    assert len(taken) == 3
