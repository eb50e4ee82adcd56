"""Early stopping beside the loop: what is new is read, and the rest is known."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.database_work import database_work
from tests.support.fakes.world import InlineExecutor
from training_api.job.tuning.measurement import Report
from training_api.job.tuning.search_terms import Goal, Stopping
from training_service.search.kept_curve import MAX_POINTS
from training_service.store.database import open_database
from training_service.store.measurement_store import Measurement, MeasurementStore
from training_service.studies.stop_judge import RunningTrial, StopJudge, StudyState

TAG = "accuracy"
COMPLETED = tuple(f"completed_{number}" for number in range(6))


class LaterExecutor(Executor):
    """Keeps what it is given until ``run`` is called."""

    def __init__(self) -> None:
        self.work: list[Callable[[], Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.work.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> None:
        work, self.work = self.work, []
        for each in work:
            each()


@pytest.fixture
def measurements(tmp_path: Path) -> MeasurementStore:
    """Six trials that have completed, each better than the one before."""
    store = MeasurementStore(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"))
    for place, uid in enumerate(COMPLETED):
        report(store, uid, [0.5 + place / 20] * 10)
    return store


def report(store: MeasurementStore, uid: str, values: list[float], first: int = 0) -> None:
    store.append(
        [
            Measurement(
                job_uid=uid,
                source="0.0",
                sequence=place,
                report=Report(tag=TAG, step=place + 1, value=value, reported_us=place),
            )
            for place, value in enumerate(values, first)
        ]
    )


def state(store: MeasurementStore, *running: str, completed: tuple[str, ...] = COMPLETED) -> StudyState:
    newest = {uid: store.newer(uid, TAG, 0, 10**6)[-1].id for uid in running}
    return StudyState(
        study_uid="study",
        tag=TAG,
        goal=Goal.MAXIMIZE,
        seed=1,
        active=frozenset(running),
        running={uid: RunningTrial(number=7, begin_us=0, newest_id=newest[uid]) for uid in running},
        completed=dict.fromkeys(completed, 0),
    )


def judge_of(store: MeasurementStore, executor: Executor | None = None) -> StopJudge:
    return StopJudge(store, executor or InlineExecutor(), lambda: None)


def test_a_bad_trial_is_to_be_stopped_and_a_good_one_is_not(measurements: MeasurementStore) -> None:
    report(measurements, "bad", [0.1] * 5)
    report(measurements, "good", [0.9] * 5)

    stops = judge_of(measurements).stops(state(measurements, "bad", "good"))

    assert [*stops] == ["bad"]


def test_the_rule_of_the_study_decides(measurements: MeasurementStore) -> None:
    """The others have 0.5 to 0.75, so that their median is 0.625."""
    report(measurements, "good start", [0.6] * 5)
    now = state(measurements, "good start")

    (stop,) = judge_of(measurements).stops(replace(now, stopping=Stopping.MEDIAN)).values()
    timed = replace(now, stopping=Stopping.MEDIAN, by_seconds=True)
    (by_seconds,) = judge_of(measurements).stops(timed).values()

    said = "0.6, is worse than 0.625, the median of the averages of 6 completed trials by then"
    assert stop.reason == f"its best value by step 5, {said}"
    assert by_seconds.reason == f"its best value by 4e-06 s, {said}"


def test_the_loop_never_waits_and_uses_the_last_finished_judgement(measurements: MeasurementStore) -> None:
    executor, woken = LaterExecutor(), list[str]()
    judge = StopJudge(measurements, executor, lambda: woken.append("woken"))
    report(measurements, "bad", [0.1] * 5)
    now = state(measurements, "bad")

    first = judge.stops(now)
    again = judge.stops(now)
    begun = len(executor.work)
    executor.run()

    assert (first, again, begun, woken) == ({}, {}, 1, ["woken"])
    assert [*judge.stops(now)] == ["bad"]
    assert executor.work == []


def test_only_what_is_new_is_read(measurements: MeasurementStore, tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
    judge = judge_of(MeasurementStore(database))

    def steps_of_one_more_report(uid: str, length: int) -> int:
        report(measurements, uid, [0.9] * length)
        judge.stops(state(measurements, uid))
        report(measurements, uid, [0.9], first=length)
        now = state(measurements, uid)
        with database_work(database) as work:
            judge.stops(now)
        return work.steps

    short, long = steps_of_one_more_report("short", 10), steps_of_one_more_report("long", 5000)

    assert long <= short + 50


def test_nothing_is_read_where_nothing_is_new(measurements: MeasurementStore, tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
    judge = judge_of(MeasurementStore(database))
    report(measurements, "bad", [0.1] * 5)
    now = state(measurements, "bad")
    before = judge.stops(now)

    with database_work(database) as work:
        after = judge.stops(now)

    assert (work.statements, after) == ([], before)


def test_a_completed_trial_changes_the_judgement_of_one_that_says_nothing_new(
    measurements: MeasurementStore,
) -> None:
    judge = judge_of(measurements)
    report(measurements, "bad", [0.1] * 5)

    before = judge.stops(state(measurements, "bad", completed=COMPLETED[:4]))

    assert before == {}
    assert [*judge.stops(state(measurements, "bad"))] == ["bad"]


def test_a_restart_judges_a_long_curve_as_before(measurements: MeasurementStore) -> None:
    grown = judge_of(measurements)
    noisy = [0.1 + (place * 7919 % 1000) / 4000 for place in range(3 * MAX_POINTS)]
    for first in range(0, len(noisy), 700):
        report(measurements, "noisy", noisy[first : first + 700], first)
        stops = grown.stops(state(measurements, "noisy"))

    assert stops
    assert judge_of(measurements).stops(state(measurements, "noisy")) == stops


def test_a_judgement_that_fails_is_made_again(
    measurements: MeasurementStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = judge_of(measurements)
    report(measurements, "bad", [0.1] * 5)
    now = state(measurements, "bad")
    with monkeypatch.context() as broken:
        broken.setattr(measurements, "newer", lambda *_: 1 / 0)
        assert judge.stops(now) == {}

    assert [*judge.stops(now)] == ["bad"]


def test_a_study_that_has_ended_is_forgotten(measurements: MeasurementStore) -> None:
    executor = LaterExecutor()
    judge = judge_of(measurements, executor)
    report(measurements, "bad", [0.1] * 5)
    now = state(measurements, "bad")
    judge.stops(now)
    executor.run()

    judge.keep([])

    assert judge.stops(now) == {}
    assert len(executor.work) == 1
