"""What the loop, and those who ask for places, read of a long queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.database_work import database_work
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.resources import Scheduling
from training_api.dialects.registry import DIALECTS
from training_api.states import JobState
from training_service.store.database import open_database, to_us, writing
from training_service.store.jobs.job_search import JobSearch
from training_service.store.tables import jobs


def world_with(folder: Path, queued: int, **changes: object) -> World:
    """Return a service in whose queue ``queued`` jobs stand, each with ``changes`` of its row."""
    world = World(open_database(f"sqlite:///{folder / f'{queued}.db'}"))
    world.submit("job_0", scheduling=Scheduling(max_wait_time="1800s"))
    with writing(world.database).begin() as connection:
        row = connection.execute(sa.select(jobs)).one()._asdict() | changes
        del row["sequence"]
        copies = [
            row | {"uid": f"u{place:06d}", "job_id": f"job_{place}", "waits_until_us": row["waits_until_us"]}
            for place in range(1, queued)
        ]
        connection.execute(sa.insert(jobs), copies)
    return world


def steps_of(world: World, do: Callable[[World], object]) -> int:
    do(world)  # connections are opened, statements compiled
    with database_work(world.database) as work:
        do(world)
    return work.steps


def look(world: World) -> object:
    return world.store.read_active()


def place_of_the_first(world: World) -> object:
    return world.store.queue_positions([world.store.get(PROJECT, "job_0").uid])


@pytest.mark.parametrize("do", [look, place_of_the_first])
def test_the_length_of_the_queue_costs_nothing(tmp_path: Path, do: Callable[[World], object]) -> None:
    short, long = (steps_of(world_with(tmp_path, queued), do) for queued in (200, 4000))

    assert long <= 1.1 * short


def test_a_queue_that_has_waited_too_long_is_read_a_part_at_a_time(tmp_path: Path) -> None:
    world = world_with(tmp_path, 300)
    world.engine.advance(1800)

    assert len(world.store.list_active()) == 50


def test_all_that_have_waited_too_long_are_cancelled(tmp_path: Path) -> None:
    world = world_with(tmp_path, 300)
    world.engine.advance(1800)

    world.step(20)

    assert world.store.count_by_state() == {JobState.CANCELLED: 300}


def test_the_number_of_jobs_that_wait_is_counted_once_for_many_places(tmp_path: Path) -> None:
    world = world_with(tmp_path, 4000)
    last = [f"u{place:06d}" for place in range(3980, 4000)]

    one = steps_of(world, lambda world: world.store.queue_positions(last[-1:]))
    twenty = steps_of(world, lambda world: world.store.queue_positions(last))

    assert twenty <= 1.5 * one


def test_few_places_and_many_are_the_same(world: World) -> None:
    for place in range(120):
        world.submit(f"job_{place}", scheduling=Scheduling(priority=place % 3))
    uids = {f"job_{place}": world.store.get(PROJECT, f"job_{place}").uid for place in range(120)}

    many = world.store.queue_positions([*uids.values()])

    few = {}
    for first in range(0, 120, 40):
        few |= world.store.queue_positions([*uids.values()][first : first + 40])
    assert sorted(many.values()) == [*range(1, 121)]
    assert few == many


def test_the_oldest_of_a_project_is_found_by_an_index(tmp_path: Path) -> None:
    world = world_with(tmp_path, 100, created_us=0)
    search = JobSearch(world.database, world.store.queue_positions, DIALECTS, ML_V1.filter_fields)

    assert search.oldest_queued() == search.oldest_queued(PROJECT)
    count, since = search.oldest_queued()
    assert count == 100
    assert since is not None
    assert to_us(since) == 0


def test_a_job_that_has_not_changed_is_not_read_again(world: World) -> None:
    for place in range(5):
        world.submit(f"job_{place}")
    first = world.store.read_active()

    with database_work(world.database) as unchanged:
        again = world.store.read_active()
    world.store.note(world.store.get(PROJECT, "job_1"), "a line of its log changes no row")
    world.store.record_image(world.store.get(PROJECT, "job_3"), "image", "sha256:1")
    with database_work(world.database) as changed:
        after = world.store.read_active()

    assert again == first
    assert [old is new for old, new in zip(first.jobs, again.jobs, strict=True)] == [True] * 5
    assert [old is new for old, new in zip(first.jobs, after.jobs, strict=True)] == [True] * 3 + [False, True]
    assert after.jobs[3].images == {"image": "sha256:1"}
    selects = [sum(each.startswith("SELECT") for each in work.statements) for work in (unchanged, changed)]
    assert selects == [1, 2]
