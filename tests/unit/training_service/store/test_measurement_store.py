"""Measurements: in their order, once, with every float."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.support.database_work import database_work
from training_api.job.tuning.measurement import Report
from training_api.job.tuning.search_terms import Goal
from training_service.store.database import open_database
from training_service.store.measurement_store import MAX_TAGS, Measurement, MeasurementStore


@pytest.fixture
def store(tmp_path: Path) -> MeasurementStore:
    return MeasurementStore(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"))


def make_measurements(
    *values: float, uid: str = "a", tag: str = "loss", source: str = "0.0", first: int = 0
) -> list[Measurement]:
    return [
        Measurement(
            job_uid=uid,
            source=source,
            sequence=place,
            report=Report(tag=tag, step=place, value=value, reported_us=10**15 + place),
        )
        for place, value in enumerate(values, first)
    ]


def values_of(found: list[Measurement]) -> list[float]:
    return [one.report.value for one in found]


def curve(store: MeasurementStore, tag: str = "loss") -> list[Measurement]:
    return store.newer("a", tag, 0, 1000)


def test_measurements_come_back_whole_and_in_their_order(store: MeasurementStore) -> None:
    stored = make_measurements(3.0, 1.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1)

    store.append(stored)

    assert curve(store) == stored
    assert curve(store, "other") == []


def test_nan_stays_nan(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, math.nan))

    assert math.isnan(values_of(curve(store))[1])


def test_what_is_stored_again_stays_as_it_was(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, 2.0))
    store.append(make_measurements(9.0, 9.0, 3.0))

    assert values_of(curve(store)) == [1.0, 2.0, 3.0]


def test_tags_name_what_was_reported(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, tag="loss") + make_measurements(1.0, tag="accuracy", first=1))

    assert store.tags("a") == ("accuracy", "loss")
    assert store.tags("b") == ()


def test_newest_are_those_of_one_stream_oldest_first(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, 2.0, 3.0) + make_measurements(9.0, source="0.1"))

    assert values_of(store.newest("a", "0.0", 2)) == [2.0, 3.0]
    assert values_of(store.newest("a", "0.1", 2)) == [9.0]


def test_what_is_new_of_many_is_told_of_each_in_its_order(store: MeasurementStore) -> None:
    uids = [f"u{number}" for number in range(250)]
    for uid in uids:
        store.append(make_measurements(1.0, 2.0, uid=uid))
    known = {uid: id_ for id_, uid, _ in store.since(dict.fromkeys(uids, 0))}
    store.append(make_measurements(3.0, math.nan, uid="u7", first=2))

    new = [(uid, report.step) for _, uid, report in store.since(known)]

    assert len(known) == 250
    assert new == [("u7", 2), ("u7", 3)]


def test_pages_of_a_curve_follow_each_other(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, 2.0, 3.0))

    first = store.newer("a", "loss", 0, 2)

    assert values_of(first) == [1.0, 2.0]
    assert values_of(store.newer("a", "loss", first[-1].id, 2)) == [3.0]


def test_the_number_of_reports_costs_nothing_where_tags_are_asked_for(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
    store = MeasurementStore(database)
    steps = []
    for uid, length in (("short", 10), ("long", 5000)):
        store.append(make_measurements(*[1.0] * length, uid=uid))
        store.append(make_measurements(1.0, uid=uid, tag="accuracy", first=length))
        with database_work(database) as work:
            assert store.tags(uid) == ("accuracy", "loss")
        steps.append(work.steps)

    assert steps[1] <= steps[0] + 20


def test_so_many_tags_are_named_and_no_more(store: MeasurementStore) -> None:
    for place in range(MAX_TAGS + 5):
        store.append(make_measurements(1.0, tag=f"t{place:03d}", first=place))

    assert store.tags("a") == tuple(f"t{place:03d}" for place in range(MAX_TAGS))


@pytest.mark.parametrize(("goal", "place"), [(Goal.MAXIMIZE, 2), (Goal.MINIMIZE, 1)])
def test_the_best_report_is_the_first_of_the_finite_ones(
    store: MeasurementStore, goal: Goal, place: int
) -> None:
    store.append(make_measurements(2.0, 1.0, 3.0, math.inf, 3.0, -math.inf, 1.0, math.nan))
    store.append(make_measurements(9.0, uid="b"))
    store.append(make_measurements(99.0, tag="other", source="1.0"))
    store.append(make_measurements(math.nan, math.inf, uid="c"))

    best = store.best(["a", "b", "c", "d"], "loss", goal)

    assert {uid: one.sequence for uid, one in best.items()} == {"a": place, "b": 0}
