"""A database that the service of commit 6ec1646 wrote, opened by the service of today."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.base import LogLine, LogStream, ReplicaLaunch
from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.causes import Cause
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.registry import DIALECTS
from training_api.fleet.wire import SearchJobsRequest
from training_api.job.cluster import ReplicaId, ReplicaRole, replica_host
from training_api.job.machines import Resources
from training_api.states import JobState
from training_service.intake.log_batch import LogBatch
from training_service.intake.log_collector import log_source
from training_service.model.records import JobRecord
from training_service.store.database import open_database, read_meta, to_us
from training_service.store.jobs.job_search import JobSearch
from training_service.store.logs import log_takeover
from training_service.store.logs.log_store import LogStore
from training_service.store.tables import jobs
from training_service.store.upgrade.migrations import SCHEMA_VERSION

#: Made by make_database_6ec1646.py.
DUMP = Path(__file__).with_name("database_6ec1646.sql")


def open_old(folder: Path, *changes: str) -> World:
    """Return a service over the old database, to which ``changes`` were made before."""
    file = folder / "jobs.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(DUMP.read_text("utf-8"))
        for change in changes:
            connection.execute(change)
    connection.close()
    world = World(open_database(f"sqlite:///{file}"), engine=MemoryEngine(), max_replicas=4)
    world.add_image(Behaviour(run_seconds=10**6))
    world.engine.advance(600)  # the old service ran for a while
    return world


@pytest.fixture
def world(tmp_path: Path) -> Any:
    world = open_old(tmp_path)
    yield world
    world.database.dispose()


def start_containers(world: World) -> None:
    """Put the containers of the jobs that run onto the engine, as the old service has left them."""
    for job in world.store.list_active():
        if job.state is JobState.RUNNING and not job.spec.study:
            for replica in job.spec.replicas:
                launch = ReplicaLaunch(
                    job_uid=job.uid,
                    job_id=job.spec.job_id,
                    project=job.spec.project,
                    replica=replica.replica,
                    attempt=job.attempts.of(replica.replica),
                    image_id=job.images[replica.image.pullable],
                    host_name=replica_host(job.spec.job_id, replica.replica),
                    command=replica.command,
                    args=replica.args,
                    environment={},
                    resources=Resources(cpus=1, memory_bytes=2**30),
                    pids_limit=100,
                    trial_id=job.trial_id,
                )
                world.engine.start_replica(launch)


def active(world: World, job_id: str, trial_id: str = "") -> JobRecord:
    (found,) = (
        job for job in world.store.list_active() if job.spec.job_id == job_id and job.trial_id == trial_id
    )
    return found


def test_every_job_is_there_as_it_was(world: World) -> None:
    listed = {job.job_id: job for job in world.jobs.list_page(PROJECT).jobs or []}

    assert {job_id: job.state for job_id, job in listed.items()} == {
        "good": JobState.SUCCEEDED,
        "bad": JobState.FAILED,
        "cancelled": JobState.CANCELLED,
        "tune": JobState.RUNNING,
        "running": JobState.RUNNING,
        "waiting": JobState.QUEUED,
    }
    assert listed["bad"].error_message == "The replica master 0 exited with a non-zero status of 3."
    assert listed["running"].labels == {"team": "a"}
    assert listed["running"].training_input is not None
    assert listed["running"].training_input.worker_count == 2
    assert listed["waiting"].job_position == 1
    assert read_meta(world.database, "schema_version") == str(SCHEMA_VERSION)


def test_every_line_of_the_logs_is_there(world: World) -> None:
    assert [line for line in world.messages("good") if line.startswith("epoch")] == ["epoch 1", "epoch 2"]
    assert "Job completed successfully." in world.messages("good")


def old_lines() -> list[tuple[Any, ...]]:
    """Return the lines of the old database as it has them, with those that a test adds."""
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(DUMP.read_text("utf-8"))
        for change in MORE_LINES:
            connection.execute(change)
        return connection.execute(OLD_LINES).fetchall()


OLD_LINES = """SELECT project, job_id, task_name, trial_id, insert_id, timestamp_us, received_us, severity, text_payload,
json_payload FROM log_entries ORDER BY received_us"""
_NS = 1767225600_123456789
MORE_LINES = tuple(
    f"""INSERT INTO log_entries (project, job_id, task_name, trial_id, insert_id, timestamp_us, received_us, severity,
    text_payload) VALUES ('project', 'tune', 'master-replica-0', '{trial}', '{insert_id}', {at_us}, {at_us + place},
    'WARNING', '{text}')"""  # noqa: S608
    for place, (trial, insert_id, at_us, text) in enumerate(
        [
            ("2", f"{_NS:020d}-000001-trial2.", _NS // 1000, "a trial"),
            ("2", f"{_NS:020d}-000002-trial2.-dropped", _NS // 1000, "a flood"),
            ("2", f"{_NS:020d}-000003-trial2.", _NS // 1000 + 7_200_000_000, "a time of its own"),
            ("", f"{_NS:020d}-000004-trial2.", _NS // 1000, "somebody else''s"),
            ("", f"{_NS:020d}-1000000", _NS // 1000, "the millionth of its instant"),
        ],
        10**9,
    )
)


@pytest.mark.parametrize("lines_at_once", [3, 20_000])
def test_every_field_of_every_line_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines_at_once: int
) -> None:
    monkeypatch.setattr(log_takeover, "LINES_AT_ONCE", lines_at_once)
    world = open_old(tmp_path, *MORE_LINES)

    entries, _ = world.logs.list_page(projects=[PROJECT], filter_text="", page_size=1000)

    found = [
        (
            (entry.resource.labels or {})["project_id"],
            (entry.resource.labels or {})["job_id"],
            entry.task_name,
            entry.trial_id,
            entry.insert_id,
            to_us(entry.timestamp),
            to_us(entry.receive_timestamp or entry.timestamp),
            entry.severity.value,
            entry.text_payload,
            json.dumps(entry.json_payload) if entry.json_payload else None,
        )
        for entry in sorted(entries, key=lambda entry: entry.receive_timestamp or entry.timestamp)
    ]
    assert found == old_lines()
    assert not sa.inspect(world.database).has_table("log_entries")
    size = sum(len(line[8] or line[9]) for line in old_lines() if line[1] == "tune")
    assert world.logs.text_bytes(PROJECT, "tune") == size
    world.database.dispose()


def test_lines_that_arrived_at_the_same_time_are_all_taken_over(tmp_path: Path) -> None:
    world = open_old(tmp_path, "UPDATE log_entries SET received_us = 1767225600000000 WHERE id % 3 = 0")

    entries, _ = world.logs.list_page(projects=[PROJECT], filter_text="", page_size=1000)

    assert len(entries) == len(old_lines()) - len(MORE_LINES)
    world.database.dispose()


def test_a_takeover_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_takeover, "LINES_AT_ONCE", 10)
    steps = log_takeover.STEPS
    calls = iter(range(len(steps) * 2 + 2))

    class Killed(BaseException):
        pass

    class Steps(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            for step in steps:
                if next(calls, None) is None:
                    raise Killed
                yield step

    monkeypatch.setattr(log_takeover, "STEPS", Steps())
    with pytest.raises(Killed):
        open_old(tmp_path)
    monkeypatch.undo()

    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")

    entries, _ = LogStore(database).list_page(projects=[PROJECT], filter_text="", page_size=1000)
    assert len(entries) == len(old_lines()) - len(MORE_LINES)
    database.dispose()


def test_a_container_that_runs_meanwhile_goes_on_with_its_log(world: World) -> None:
    start_containers(world)
    running = active(world, "running")
    master = ReplicaId(role=ReplicaRole.MASTER)
    (observed,) = (
        each
        for each in world.engine.observe().replicas
        if (each.job_uid, each.replica) == (running.uid, master)
    )
    source = log_source(running, observed, DIALECTS)
    newest_ns = to_us(running.created_at) * 1000
    old = LogBatch(world.logs, replace(source, container=""))
    lines = [
        LogLine(timestamp_ns=newest_ns + place, stream=LogStream.STDOUT, text=f"line {place}")
        for place in range(10)
    ]
    for line in lines[:6]:
        old.add(line)
    old.finish()

    for _ in range(3):
        new = LogBatch(world.logs, source, started_at=running.created_at)
        new.rewind()
        for line in lines:
            new.add(line)
        new.finish()

    said = [message for message in world.messages("running") if message.startswith("line")]
    assert said == [line.text for line in lines]


def test_the_trials_are_there_with_what_they_reported(world: World) -> None:
    output = world.get("tune").training_output

    assert output is not None
    first, second = output.trials or []
    assert (first.state, second.state) == (JobState.SUCCEEDED, JobState.RUNNING)
    assert first.final_metric is not None
    assert first.final_metric.objective_value == 1.0


def test_what_ended_before_has_an_unknown_cause_and_keeps_its_message(world: World) -> None:
    search = JobSearch(
        world.database, world.store.queue_positions, DIALECTS, ML_V1.filter_fields, world.engine.clock
    )
    rows = {row["jobId"]: row for row in search.search(PROJECT, SearchJobsRequest())["jobs"]}

    assert "reason" not in rows["bad"]
    reason = world.store.get(PROJECT, "bad").reason
    assert reason is not None
    assert (reason.cause, reason.message) == (Cause.UNKNOWN, rows["bad"]["errorMessage"])


def test_each_row_has_what_it_runs_beside_what_was_asked_for(world: World) -> None:
    running, trial = active(world, "running"), active(world, "tune", "2")

    assert [str(replica.replica) for replica in running.spec.replicas] == ["master 0", "worker 0", "worker 1"]
    assert running.spec.master.args == ("--epochs", "9", "--job-dir", "gs://bucket/running")
    assert trial.spec.master.args[:4] == ("--epochs", "3", "--job-dir", "gs://bucket/tune/2")
    assert trial.spec.output_dir == "gs://bucket/tune/2"
    assert active(world, "waiting").spec.priority == 5
    with world.database.connect() as connection:
        forms = connection.execute(sa.select(jobs.c.spec)).scalars().all()
    assert {form["form"] for form in forms} == {2}


def test_the_loop_goes_on_with_what_runs(world: World) -> None:
    start_containers(world)
    before = world.engine.observe()
    world.settle()
    while_it_runs = world.engine.observe()

    running = active(world, "running")
    world.engine.end(running.uid, running.spec.master.replica, 0)
    world.settle()

    assert while_it_runs == before
    assert world.state("running") is JobState.SUCCEEDED
    assert world.state("waiting") is JobState.RUNNING
    assert world.state("tune") is JobState.RUNNING


def test_the_study_goes_on_with_its_next_trial(world: World) -> None:
    start_containers(world)
    # The job with the higher priority that waits starts, too.
    for job in (active(world, "tune", "2"), active(world, "running")):
        world.engine.end(job.uid, job.spec.master.replica, 0)
    world.settle()

    (third,) = (launch for launch in world.engine.launches() if launch.trial_id == "3")

    assert third.args[:4] == ("--epochs", "3", "--job-dir", "gs://bucket/tune/3")
    assert json.loads(third.environment["CLUSTER_SPEC"])["job"]["jobDir"] == "gs://bucket/tune/3"


def test_a_job_that_waits_is_cancelled_at_its_limit(world: World) -> None:
    start_containers(world)
    world.settle()
    created = active(world, "waiting").created_at

    world.engine.advance(7200 - (world.engine.now - created).total_seconds() - 1)
    world.settle()
    before = world.state("waiting")
    world.engine.advance(1)
    world.settle()

    assert (before, world.state("waiting")) == (JobState.QUEUED, JobState.CANCELLED)


def test_a_database_that_was_opened_is_opened_again_as_it_is(tmp_path: Path) -> None:
    world = open_old(tmp_path)
    before = world.store.list_active()
    world.database.dispose()

    world = World(open_database(world.database.url.render_as_string()), engine=world.engine)

    assert world.store.list_active() == before
    world.database.dispose()


@pytest.mark.parametrize(
    ("training_input", "state"),
    [
        # It was accepted by a version whose models had another field; it runs.
        (f'{{"masterConfig": {{"imageUri": "{IMAGE}"}}, "ofAnotherVersion": 1}}', JobState.RUNNING),
        ('{"masterConfig": {}}', JobState.FAILED),
        ("[]", JobState.FAILED),
        ("{", JobState.FAILED),
    ],
)
def test_one_request_that_cannot_be_read_stops_no_migration(
    tmp_path: Path, training_input: str, state: JobState
) -> None:
    change = f"UPDATE jobs SET training_input = '{training_input}' WHERE job_id = 'running'"  # noqa: S608
    world = open_old(tmp_path, change)
    start_containers(world)

    world.settle()

    assert world.state("running") is state
    assert world.state("tune") is JobState.RUNNING
    reason = world.store.get(PROJECT, "running").reason
    assert (reason is None) is (state is JobState.RUNNING)
    assert reason is None or reason.cause is Cause.UNREADABLE
    world.database.dispose()
