"""Curves that grow: nothing is read twice, and no peak is lost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tests.support.fakes.world import PROJECT, World
from training_api.job.tuning.measurement import Report
from training_service.store.measurement_store import Measurement, MeasurementStore
from training_service.use_cases.curve_book import (
    LEAST_POINTS,
    MAX_ALL_POINTS,
    MAX_JOBS,
    MAX_POINTS,
    CurveBook,
    points_each,
)


class CountingStore(MeasurementStore):
    """Counts the reports that were read."""

    read = 0

    def since(self, read_to: Mapping[str, int]) -> Iterator[tuple[int, str, Report]]:
        for found in super().since(read_to):
            self.read += 1
            yield found


def report(world: World, uid: str, values: list[float], *, tag: str = "accuracy", first: int = 0) -> None:
    world.measurements.append(
        [
            Measurement(
                job_uid=uid,
                source=tag,
                sequence=step,
                report=Report(tag=tag, step=step, value=value, reported_us=step * 10**6),
            )
            for step, value in enumerate(values, first)
        ]
    )


def test_a_second_look_reads_what_is_new_only(world: World) -> None:
    world.submit()
    uid = world.store.get(PROJECT, "job").uid
    store = CountingStore(world.database)
    book = CurveBook(store)
    report(world, uid, [0.1, math.nan, 0.3])

    (curve,) = book.of_job(uid)
    read_first = store.read
    report(world, uid, [0.4], first=3)
    report(world, uid, [9.0], tag="loss")
    grown, loss = book.of_job(uid)

    assert (curve.tag, curve.trial_id, curve.values) == ("accuracy", "", [0.1, None, 0.3])
    assert (grown.steps, grown.values) == ([0, 1, 2, 3], [0.1, None, 0.3, 0.4])
    assert grown.times == [0.0, 1.0, 2.0, 3.0]
    assert (loss.tag, loss.values) == ("loss", [9.0])
    assert (read_first, store.read) == (3, 5)


def test_a_long_curve_is_bounded_and_keeps_its_peaks_and_its_end(world: World) -> None:
    world.submit()
    uid = world.store.get(PROJECT, "job").uid
    book = CurveBook(world.measurements)
    count = 4 * MAX_POINTS
    values = [0.5] * count
    values[1234], values[5678] = 7.0, -7.0
    report(world, uid, values[: count // 3])
    book.of_job(uid)
    report(world, uid, values[count // 3 :], first=count // 3)

    (curve,) = book.of_job(uid)

    assert len(curve.steps) == len(curve.values) == len(curve.times) <= MAX_POINTS
    assert curve.steps == sorted(curve.steps)
    assert (curve.steps[0], curve.steps[-1]) == (0, count - 1)
    assert {7.0, -7.0} <= set(curve.values)


def test_many_curves_share_the_points(world: World) -> None:
    world.submit()
    uid = world.store.get(PROJECT, "job").uid
    book = CurveBook(world.measurements)
    count = MAX_ALL_POINTS // MAX_POINTS * 4
    report(world, uid, [float(step) for step in range(MAX_POINTS)], tag="tag0")
    assert len(book.of_job(uid)[0].steps) == MAX_POINTS
    for number in range(1, count):
        report(world, uid, [float(step) for step in range(1000)], tag=f"tag{number}")

    curves = book.of_job(uid)

    assert len(curves) == count
    assert {len(curve.steps) <= points_each(count) for curve in curves} == {True}
    assert [(curve.values[0], curve.values[-1]) for curve in curves[:2]] == [(0.0, 2999.0), (0.0, 999.0)]
    assert points_each(10**6) == LEAST_POINTS


def test_jobs_beyond_the_bound_are_read_again_when_they_are_asked_for(world: World) -> None:
    world.submit()
    uid = world.store.get(PROJECT, "job").uid
    report(world, uid, [0.1, 0.2])
    store = CountingStore(world.database)
    book = CurveBook(store)

    before = book.of_job(uid)
    for other in range(MAX_JOBS):
        book.of_job(f"other-{other}")

    assert book.of_job(uid) == before
    assert store.read == 4
