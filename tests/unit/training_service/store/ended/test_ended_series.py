"""What jobs reported and used, some time after their end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.fakes.ended_jobs import REPORTS, add_belongings, count, end_job
from tests.support.fakes.studies import TAG
from tests.support.fakes.world import PROJECT, World
from training_service.store.ended import ended_series
from training_service.store.ended.ended_series import START, EndedSeries
from training_service.store.tables import gpu_samples, measurements, spans, usage_samples

SAMPLES = (usage_samples, gpu_samples)


def thin(world: World, days: float = 30) -> list[tuple[str, int]]:
    series, place, steps = EndedSeries(world.database), START, []
    while True:
        uids, place = series.next_batch(place, world.engine.now - timedelta(days=days))
        if not uids:
            return steps
        steps += series.thin(uids)


def test_the_last_report_of_each_trial_stays_and_its_use_goes(world: World) -> None:
    study = end_job(world, trials=2, days_ago=31)
    trials = [trial.uid for trial in world.trials.summaries([study.uid])]

    thin(world)

    left = [one.report.value for uid in trials for one in world.measurements.newer(uid, TAG, -1, 10)]
    assert left == [2.0, 2.0]
    assert [count(world.database, table) for table in SAMPLES] == [0, 0]
    assert count(world.database, spans) == 3
    output = world.get().training_output
    assert output is not None
    assert [each.final_metric is not None for each in output.trials or ()] == [True, True]


def test_a_job_that_goes_on_or_has_just_ended_keeps_its_series(world: World) -> None:
    world.submit("waits")
    add_belongings(world, world.store.get(PROJECT, "waits").uid)
    end_job(world, days_ago=29)

    assert thin(world) == []
    assert count(world.database, measurements) == 2 * REPORTS


def test_rows_go_in_bounded_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_series, "_STEP_ROWS", 2)
    monkeypatch.setattr(ended_series, "_BATCH_JOBS", 2)
    for number in range(3):
        end_job(world, f"job_{number}")

    steps = thin(world)

    assert max(number for _, number in steps) == 2
    assert count(world.database, measurements) == 3
    assert [count(world.database, table) for table in SAMPLES] == [0, 0]
    assert thin(world) == []
