"""
How the past of jobs is read.

What it says is in ``test_history_book.py`` and ``contract/test_fleet_history.py``.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_service.store.database import to_us
from training_service.store.jobs.job_history import JobHistory
from training_service.store.sql.series_sql import buckets_until

#: How SQLite may find the jobs of a window: by their end, and then by their keys.
_BY_END = (
    "USING INDEX whole_jobs_by_end",
    "USING INTEGER PRIMARY KEY",
    "whole_jobs_by_state",
    "trials_by_study",
)


def test_jobs_that_ended_before_the_window_are_not_read(world: World) -> None:
    """A page asks every few seconds, whatever the number of jobs before."""
    world.add_image(Behaviour(run_seconds=1))
    world.submit("job")
    world.settle()
    now_us = to_us(world.engine.now)
    buckets = buckets_until(now_us, 3600, 60)
    sizes = {"name": "m", "cpus": 1, "memoryBytes": 1, "gpus": 0, "replicas": 1, "rate": 1}
    statements: list[tuple[str, Any]] = []
    sa.event.listen(world.database, "before_cursor_execute", lambda *call: statements.append(call[2:4]))

    with world.database.connect() as connection:
        past = JobHistory(connection, PROJECT, ["d"], buckets.start, now_us)
        machines = {row.key: sizes for row in past.machines(10)}
        past.states()
        past.use(machines, buckets)
        past.queue(buckets)
        past.waits(machines)
        past.failures()
        past.costs(machines, "team", buckets, 7)
        past.label_keys(30)

    asked = [each for each in statements if each[0].startswith(("SELECT", "WITH"))]
    with world.database.connect() as connection:
        plans = [
            row.detail
            for statement, parameters in asked
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    of_jobs = [
        plan for plan in plans if plan.startswith(("SCAN jobs", "SEARCH jobs", "SEARCH trial", "SCAN trial"))
    ]
    assert len(asked) == 8
    assert of_jobs
    assert [plan for plan in of_jobs if not any(index in plan for index in _BY_END)] == []
