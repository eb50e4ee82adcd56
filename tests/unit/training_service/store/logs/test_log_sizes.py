"""How much the log entries in the database are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.fakes.world import PROJECT, World
from training_service.store.logs import log_sizes
from training_service.store.logs.log_sizes import log_amount, moment_beyond


def test_the_amount_is_that_of_one_job(world: World) -> None:
    world.submit("other")
    world.submit()

    assert log_amount(world.database, PROJECT, "job") == (
        1,
        len('{"message": "Job job is queued.", "state": "QUEUED"}'),
    )
    assert log_amount(world.database, PROJECT, "absent") == (0, 0)


def test_the_moment_divides_what_is_small_enough_from_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sizes, "_ROWS_AT_ONCE", 2)
    world.submit()
    record, start = world.store.get(PROJECT, "job"), world.engine.now
    for _ in range(5):
        world.engine.advance(60)
        world.store.note(record, "x")
    each = len('{"message": "x"}')

    found = moment_beyond(world.database, 3 * each)

    assert found == start + timedelta(seconds=120, microseconds=1)
    assert moment_beyond(world.database, 10_000) is None
    assert moment_beyond(world.database, 0) == start + timedelta(seconds=300, microseconds=1)


def test_lines_that_were_removed_do_not_count_although_their_job_has_written_them(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    for _ in range(5):
        world.engine.advance(60)
        world.store.note(record, "x")
    size = 3 * len('{"message": "x"}')
    moment = moment_beyond(world.database, size)
    assert moment is not None

    world.logs.remove_before(moment, 100)

    assert world.logs.text_bytes(PROJECT, "job") > size
    assert moment_beyond(world.database, size) is None
    assert log_amount(world.database, PROJECT, "job") == (3, size)
