"""Jobs in the database: compare-and-swap, filters, pages."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, Scheduling, TrainingInput
from training_api.errors import IllegalTransition, InvalidFilter, InvalidRequest, JobConflict
from training_api.states import JobState
from training_service.store.database import open_database, read_meta, writing
from training_service.store.tables import jobs, meta
from training_service.store.upgrade.migrations import SCHEMA_VERSION


def names(world: World, filter_text: str = "", **page: object) -> list[str | None]:
    answer = world.jobs.list_page(PROJECT, filter_text, **page)  # type: ignore[arg-type]
    return [job.job_id for job in answer.jobs or []]


def submit(world: World, job_id: str, **labels: str) -> None:
    training = TrainingInput(master_config=ReplicaConfig(image_uri=IMAGE))
    world.jobs.create(PROJECT, Job(job_id=job_id, labels=labels or None, training_input=training))


def test_only_one_of_two_writers_moves_a_job(world: World) -> None:
    world.submit()
    seen = world.store.get(PROJECT, "job")
    at = world.engine.now

    first = world.store.advance(seen, JobState.PREPARING, at=at, message="x")
    second = world.store.advance(seen, JobState.CANCELLING, at=at, message="y")

    assert (first, second) == (True, False)
    assert world.state() is JobState.PREPARING
    assert "y" not in world.messages()


def test_illegal_step_is_refused_before_anything_is_written(world: World) -> None:
    world.submit()
    seen = world.store.get(PROJECT, "job")

    with pytest.raises(IllegalTransition, match="QUEUED to SUCCEEDED"):
        world.store.advance(seen, JobState.SUCCEEDED, at=world.engine.now, message="x")

    assert world.state() is JobState.QUEUED


def test_etag_changes_with_every_state(world: World) -> None:
    world.submit()
    before = world.get().etag

    world.step()

    assert world.get().etag != before


def test_one_of_many_concurrent_creates_of_an_id_wins(world: World) -> None:
    outcomes: list[str] = []

    def create() -> None:
        try:
            world.submit()
            outcomes.append("created")
        except JobConflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["conflict"] * 7 + ["created"]


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ("", ["c", "b", "a"]),
        ('jobId="a"', ["a"]),
        ("jobId:B", ["b"]),
        ("state=QUEUED AND labels.team=vision", ["b", "a"]),
        ("labels.team=vision AND NOT labels.env=prod", ["a"]),
        ('state!="QUEUED"', []),
        ("labels.team=nlp OR jobId=a", ["c", "a"]),
        ('createTime>="2026-01-01T00:00:00Z"', ["c", "b", "a"]),
        ('createTime<"2026-01-01T00:00:00Z"', []),
    ],
)
def test_list_filters(world: World, filter_text: str, expected: list[str]) -> None:
    submit(world, "a", team="vision", env="dev")
    submit(world, "b", team="vision", env="prod")
    submit(world, "c", team="nlp")

    assert names(world, filter_text) == expected


@pytest.mark.parametrize(
    "filter_text", ["shoe_size=3", "jobId", "createTime>yesterday", "createTime:2026", "(", "a=b c"]
)
def test_filter_that_cannot_be_read_is_refused(world: World, filter_text: str) -> None:
    with pytest.raises(InvalidFilter):
        names(world, filter_text)


def test_pages_cover_every_job_once_newest_first(world: World) -> None:
    for place in range(7):
        submit(world, f"job_{place}")

    first = world.jobs.list_page(PROJECT, page_size=3)
    second = world.jobs.list_page(PROJECT, page_size=3, page_token=first.next_page_token or "")
    third = world.jobs.list_page(PROJECT, page_size=3, page_token=second.next_page_token or "")

    found = [job.job_id for page in (first, second, third) for job in page.jobs or []]
    assert found == [f"job_{place}" for place in range(6, -1, -1)]
    assert third.next_page_token is None


def test_page_size_has_a_default_and_a_maximum(world: World) -> None:
    for place in range(101):
        submit(world, f"job_{place}")

    assert len(names(world)) == 20
    assert len(names(world, page_size=1000)) == 100


def test_empty_list_has_no_fields(world: World) -> None:
    assert world.jobs.list_page(PROJECT).to_wire() == {}


def test_foreign_page_token_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest, match="pageToken: page token 'x'"):
        names(world, page_token="x")


def test_job_that_was_accepted_before_a_rule_existed_is_still_read(world: World) -> None:
    world.submit()
    old = {"masterConfig": {"imageUri": IMAGE}, "pythonVersion": "3.7"}  # refused by today's rules
    with writing(world.database).begin() as connection:
        connection.execute(jobs.update().values(request=old))

    world.settle()

    assert world.get().training_input is not None
    assert names(world) == ["job"]


def test_pages_of_jobs_of_one_moment_cover_each_once(world: World) -> None:
    for place in range(5):  # the virtual clock stands still
        submit(world, f"job_{place}")

    first = world.jobs.list_page(PROJECT, page_size=4)
    second = world.jobs.list_page(PROJECT, page_size=4, page_token=first.next_page_token or "")

    assert [job.job_id for job in (first.jobs or []) + (second.jobs or [])] == [
        f"job_{place}" for place in range(4, -1, -1)
    ]


def test_places_in_the_queue_follow_priority_then_age(world: World) -> None:
    for job_id, priority in (("old", 0), ("urgent", 7), ("young", 0), ("running", 9)):
        world.submit(job_id, scheduling=Scheduling(priority=priority))
    running = world.store.get(PROJECT, "running")
    world.store.advance(running, JobState.PREPARING, at=world.engine.now, message="x")

    listed = world.jobs.list_page(PROJECT).jobs or []

    places = {job.job_id: job.job_position for job in listed}
    assert places == {"urgent": 1, "old": 2, "young": 3, "running": None}
    assert {job_id: world.get(str(job_id)).job_position for job_id in places} == places


def test_loop_looks_at_the_head_of_a_long_queue_only(world: World) -> None:
    for place in range(70):
        world.submit(f"job_{place}")
    world.submit("urgent", scheduling=Scheduling(priority=1))
    moved = world.store.get(PROJECT, "job_69")
    world.store.advance(moved, JobState.CANCELLING, at=world.engine.now, message="x")

    seen = [record.spec.job_id for record in world.store.list_active()]

    assert seen == [*(f"job_{place}" for place in range(49)), "job_69", "urgent"]


def test_job_far_back_in_the_queue_is_cancelled_when_it_has_waited_too_long(world: World) -> None:
    world.add_image(Behaviour(run_seconds=10**6))
    for place in range(70):
        world.submit(f"job_{place}")
    world.submit("impatient", scheduling=Scheduling(max_wait_time="1800s"))
    world.engine.advance(1799)
    world.settle()
    before = world.state("impatient")

    world.engine.advance(1)
    world.settle()

    assert (before, world.state("impatient")) == (JobState.QUEUED, JobState.CANCELLED)


def test_database_of_an_older_service_gets_the_indices_of_today(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    older = open_database(url)
    with writing(older).begin() as connection:
        for index in jobs.indexes:
            index.drop(connection)
        connection.exec_driver_sql("CREATE INDEX jobs_by_state ON jobs (state)")
    older.dispose()

    database = open_database(url)

    found = {index["name"] for index in sa.inspect(database).get_indexes("jobs")}
    assert found == {index.name for index in jobs.indexes}


def test_service_id_outlives_a_restart(world: World) -> None:
    before = world.store.service_id

    world.restart()

    assert world.store.service_id == before


def test_database_of_a_newer_service_is_refused(world: World) -> None:
    newer = str(SCHEMA_VERSION + 1)
    with writing(world.database).begin() as connection:
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value=newer))

    with pytest.raises(ValueError, match=f"schema version {newer}"):
        open_database(world.database.url.render_as_string())


def test_database_of_the_first_version_is_brought_to_this_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    world = World(open_database(url))
    world.submit("old_job")
    with writing(world.database).begin() as connection:
        for index in sa.inspect(connection).get_indexes("jobs"):
            connection.execute(sa.text(f"DROP INDEX {index['name']}"))
        connection.execute(sa.text("ALTER TABLE jobs RENAME COLUMN request TO training_input"))
        newer = ("images", "attempts", "outcome", "study_uid", "trial", "reason", "spec", "waits_until_us")
        for column in (*newer, "dialect"):
            connection.execute(sa.text(f"ALTER TABLE jobs DROP COLUMN {column}"))
        connection.execute(sa.text("ALTER TABLE jobs ADD COLUMN image_id VARCHAR(128) NOT NULL DEFAULT ''"))
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value="1"))
    world.database.dispose()

    world = World(open_database(url))
    world.add_image()
    world.settle()

    assert world.state("old_job") is JobState.RUNNING
    assert read_meta(world.database, "schema_version") == str(SCHEMA_VERSION)
    world.database.dispose()
