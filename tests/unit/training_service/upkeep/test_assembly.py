"""The keeper of a service: all its tasks over one database and one engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes.ended_jobs import end_job, job_ids, orphaned_rows
from tests.support.fakes.world import IMAGE, World
from training_service.model.retention import Retention
from training_service.store.pull_store import PullStore
from training_service.upkeep import keeper as keeper_module
from training_service.upkeep.assembly import MetricFolders, build_keeper


def test_a_pass_removes_what_is_old_and_counts_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "_STEP_PAUSE_SECONDS", 0.001)
    end_job(world, "old", trials=1)
    end_job(world, "young", trials=1, days_ago=31)
    image, pulls, removed = world.add_image(image=IMAGE), PullStore(world.database), []
    pulls.record_pull(image.pullable, world.engine.now)
    folders = tmp_path / "metrics"
    (folders / "stray").mkdir(parents=True)
    keeper = build_keeper(
        world.database,
        world.logs,
        Retention(image_bytes=1),
        engine=world.engine,
        pulls=pulls,
        kept_images=["localhost/runtime"],
        folders=MetricFolders(folders, world.store.active_uids, removed.append),
        metrics=world.metrics,
        clock=world.engine.clock,
    )

    assert keeper.work()

    assert (job_ids(world.database), orphaned_rows(world.database)) == (["young"], {})
    assert removed == ["stray"]
    assert world.engine.find_image(image) is None
    value = world.metrics.registry.get_sample_value
    kinds = ("jobs", "trials", "log_entries", "measurements", "metric_folders", "images")
    counted = {kind: value("training_upkeep_removed_total", {"kind": kind}) for kind in kinds}
    # Of the old job all reports of the job and its trial, of the young one all but the last.
    assert counted == {
        "jobs": 1,
        "trials": 1,
        "log_entries": 2,
        "measurements": 10,
        "metric_folders": 1,
        "images": 1,
    }


def test_an_engine_that_is_away_fails_its_task_only(world: World, tmp_path: Path) -> None:
    end_job(world, "old")
    pulls = PullStore(world.database)
    pulls.record_pull(IMAGE, world.engine.now)
    world.engine.available = False
    keeper = build_keeper(
        world.database,
        world.logs,
        Retention(image_bytes=1),
        engine=world.engine,
        pulls=pulls,
        kept_images=[],
        folders=MetricFolders(tmp_path / "absent", world.store.active_uids, lambda _: None),
        metrics=world.metrics,
        clock=world.engine.clock,
    )

    assert not keeper.work()
    assert job_ids(world.database) == []
    assert [name for name, _ in pulls.by_use()] == [IMAGE]
    assert world.metrics.registry.get_sample_value("training_upkeep_errors_total", {"task": "images"}) == 1
