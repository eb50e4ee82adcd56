"""What upkeep removes, by age and by size."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.ended_jobs import REPORTS, count, end_job, job_ids
from tests.support.fakes.world import PROJECT, World
from training_service.model.retention import Retention
from training_service.store.audit_store import AuditEntry, AuditStore
from training_service.store.ended.ended_jobs import EndedJobs
from training_service.store.ended.ended_series import EndedSeries
from training_service.store.tables import measurements
from training_service.upkeep import tasks
from training_service.upkeep.tasks import (
    Task,
    old_audit,
    old_jobs,
    old_logs,
    old_series,
    renewed_limits,
    stray_folders,
)

NEVER = timedelta(0)


def run(task: Task) -> dict[str, int]:
    removed: dict[str, int] = {}
    for kind, number in task():
        removed[kind] = removed.get(kind, 0) + number
    return {kind: number for kind, number in removed.items() if number}


def test_jobs_go_after_their_time_and_never_without_a_limit(world: World) -> None:
    end_job(world, "old", days_ago=11)
    end_job(world, "young", days_ago=9)
    ended, clock = EndedJobs(world.database), world.engine.clock

    assert run(old_jobs(ended, world.logs, Retention(jobs=NEVER), clock)) == {}
    removed = run(old_jobs(ended, world.logs, Retention(jobs=timedelta(days=10)), clock))

    assert removed["jobs"] == 1
    assert job_ids(world.database) == ["young"]


def test_entries_of_the_audit_log_go_after_the_time_of_logs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_STEP_ENTRIES", 1)
    audit = AuditStore(world.database, world.engine.clock)
    for _ in range(3):
        audit.append(AuditEntry(project=PROJECT, payload={}, failed=False))
        world.engine.advance(24 * 3600)

    assert run(old_audit(audit, Retention(logs=NEVER), world.engine.clock)) == {}
    removed = run(old_audit(audit, Retention(logs=timedelta(days=1, hours=1)), world.engine.clock))

    assert removed == {"audit_entries": 2}


def messages_of_three_days(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    for day in range(3):
        world.store.note(record, f"day {day}")
        world.engine.advance(24 * 3600)


def test_log_entries_go_after_their_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_STEP_ENTRIES", 1)
    messages_of_three_days(world)
    keep = Retention(logs=timedelta(days=2, hours=1))

    assert run(old_logs(world.database, world.logs, Retention(logs=NEVER), world.engine.clock)) == {}
    removed = run(old_logs(world.database, world.logs, keep, world.engine.clock))

    # The line of the queue, too.
    assert removed == {"log_entries": 2}
    assert world.messages() == ["day 1", "day 2"]


def test_the_oldest_log_entries_go_when_all_are_too_many(world: World) -> None:
    messages_of_three_days(world)
    size_of_two = 2 * len('{"message": "day 0"}')
    keep = Retention(logs=NEVER, log_bytes=size_of_two)

    assert (
        run(old_logs(world.database, world.logs, Retention(logs=NEVER, log_bytes=10_000), world.engine.clock))
        == {}
    )
    assert run(old_logs(world.database, world.logs, keep, world.engine.clock)) == {"log_entries": 2}
    assert world.messages() == ["day 1", "day 2"]
    assert run(old_logs(world.database, world.logs, keep, world.engine.clock)) == {}


def test_series_go_after_their_time_and_are_looked_at_once(world: World) -> None:
    end_job(world, "old", days_ago=31)
    end_job(world, "young", days_ago=29)
    series, clock = EndedSeries(world.database), world.engine.clock
    never = old_series(series, Retention(series=NEVER), clock)
    task = old_series(series, Retention(series=timedelta(days=30)), clock)

    assert run(never) == {}
    first = run(task)
    again = run(task)
    world.engine.advance(2 * 24 * 3600)
    later = run(task)

    assert first["measurements"] == later["measurements"] == REPORTS - 1
    assert again == {}
    assert count(world.database, measurements) == 2


def test_folders_of_jobs_that_have_ended_go(world: World, tmp_path: Path) -> None:
    removed: list[str] = []
    world.submit()
    uid = world.store.get(PROJECT, "job").uid
    root = tmp_path / "metrics"
    task = stray_folders(root, world.store.active_uids, removed.append)

    assert run(task) == {}
    (root / uid).mkdir(parents=True)
    (root / "stray").mkdir()
    assert run(task) == {"metric_folders": 1}
    assert removed == ["stray"]


def test_the_limits_of_containers_are_renewed_by_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, renewed = MemoryEngine(), []
    monkeypatch.setattr(engine, "confine", lambda: renewed.append("now"))
    task = renewed_limits(engine)

    assert run(task) == {}
    assert run(task) == {}
    assert len(renewed) == 2
