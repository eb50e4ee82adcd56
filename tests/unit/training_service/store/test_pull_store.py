"""The images that this service has pulled."""

from __future__ import annotations

from datetime import timedelta

from tests.support.fakes.ended_jobs import end_job
from tests.support.fakes.world import IMAGE, World
from training_service.store.pull_store import PullStore


def test_the_least_recently_used_come_first_and_only_pulls_are_known(world: World) -> None:
    pulls, start = PullStore(world.database), world.engine.now

    def later(hours: int) -> None:
        world.engine.advance(hours * 3600)

    pulls.record_pull("first:1", start)
    pulls.record_pull("second:1", start + timedelta(hours=1))
    pulls.record_use("first:1", start + timedelta(hours=2))
    pulls.record_use("of-others:1", start)
    later(1)

    assert pulls.by_use() == [
        ("second:1", start + timedelta(hours=1)),
        ("first:1", start + timedelta(hours=2)),
    ]
    pulls.forget("second:1")
    pulls.record_pull("first:1", start + timedelta(hours=3))
    assert pulls.by_use() == [("first:1", start + timedelta(hours=3))]


def test_what_jobs_want_is_that_of_those_that_have_not_ended(world: World) -> None:
    end_job(world, "ended")
    nothing = PullStore(world.database).wanted()
    world.submit("waits")

    assert nothing == (set(), set())
    assert PullStore(world.database).wanted() == ({IMAGE}, set())
