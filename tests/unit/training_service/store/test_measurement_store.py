"""Measurements: in their order, once, with every float."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from training_api.job.tuning.measurement import Report
from training_service.store.database import open_database
from training_service.store.measurement_store import Measurement, MeasurementStore


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


def test_measurements_come_back_whole_and_in_their_order(store: MeasurementStore) -> None:
    stored = make_measurements(3.0, 1.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1)

    store.append(stored)

    assert store.of("a", "loss") == stored
    assert store.of("a", "other") == []


def test_nan_stays_nan(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, math.nan))

    assert math.isnan(values_of(store.of("a", "loss"))[1])


def test_what_is_stored_again_stays_as_it_was(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, 2.0))
    store.append(make_measurements(9.0, 9.0, 3.0))

    assert values_of(store.of("a", "loss")) == [1.0, 2.0, 3.0]


def test_many_trials_are_read_in_one_go(store: MeasurementStore) -> None:
    store.append(make_measurements(1.0, 2.0, uid="a") + make_measurements(3.0, uid="b"))
    store.append(make_measurements(4.0, uid="a", first=2) + make_measurements(5.0, uid="c", tag="other"))

    found = store.of_many(["a", "b", "c", "d", *(f"x{place}" for place in range(2500))], "loss")

    assert {uid: values_of(each) for uid, each in found.items()} == {"a": [1.0, 2.0, 4.0], "b": [3.0]}


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
