"""Which measurement of a trial counts."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.support.database_work import database_work
from training_api.job.tuning.measurement import Report
from training_api.job.tuning.search_terms import Goal, Selection
from training_api.job.tuning.study_spec import StudySpec
from training_service.store.database import open_database
from training_service.store.measurement_store import Measurement, MeasurementStore
from training_service.studies.finals import FinalMeasurements

TAG = "accuracy"


@pytest.fixture
def store(tmp_path: Path) -> MeasurementStore:
    return MeasurementStore(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"))


def study(selection: Selection, goal: Goal = Goal.MAXIMIZE) -> StudySpec:
    return StudySpec(parameters=(), metric_tag=TAG, selection=selection, goal=goal)


def add(store: MeasurementStore, uid: str, *values: float, first: int = 0) -> None:
    store.append(
        [
            Measurement(
                job_uid=uid,
                source="0.0",
                sequence=place,
                report=Report(tag=TAG, step=place, value=value, reported_us=place),
            )
            for place, value in enumerate(values, first)
        ]
    )


def latest(store: MeasurementStore, *uids: str) -> dict[str, Measurement]:
    return {uid: store.newer(uid, TAG, 0, 1000)[-1] for uid in uids}


def finals(store: MeasurementStore, asked: StudySpec) -> dict[str, tuple[int, float]]:
    found = FinalMeasurements(store).of(asked, latest(store, "a", "b"))
    return {uid: (one.report.step, one.report.value) for uid, one in found.items()}


def test_the_last_or_the_best_counts(store: MeasurementStore) -> None:
    add(store, "a", 0.2, 0.9, 0.5)
    add(store, "b", 0.4)

    assert finals(store, study(Selection.LAST)) == {"a": (2, 0.5), "b": (0, 0.4)}
    assert finals(store, study(Selection.BEST)) == {"a": (1, 0.9), "b": (0, 0.4)}
    assert finals(store, study(Selection.BEST, Goal.MINIMIZE)) == {"a": (0, 0.2), "b": (0, 0.4)}


def test_a_best_that_is_no_number_does_not_count(store: MeasurementStore) -> None:
    add(store, "a", 0.2, math.inf, math.nan)
    add(store, "b", math.inf)

    assert finals(store, study(Selection.BEST)) == {"a": (0, 0.2), "b": (0, math.inf)}


def test_what_has_said_nothing_new_is_not_read_again(store: MeasurementStore, tmp_path: Path) -> None:
    add(store, "a", 0.9, 0.5)
    add(store, "b", 0.4)
    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
    kept, asked = FinalMeasurements(MeasurementStore(database)), study(Selection.BEST)
    before = kept.of(asked, latest(store, "a", "b"))

    with database_work(database) as work:
        again = kept.of(asked, latest(store, "a", "b"))

    assert (work.statements, again) == ([], before)
    add(store, "b", 0.6, first=1)
    assert kept.of(asked, latest(store, "a", "b"))["b"].report.value == 0.6
    assert kept.of(asked, latest(store, "b")).keys() == {"b"}
