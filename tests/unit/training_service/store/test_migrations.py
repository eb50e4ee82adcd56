"""A database that the service of commit 6ec1646 wrote, opened by the service of today."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.base import ReplicaLaunch
from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.causes import Cause
from training_api.fleet.wire import SearchJobsRequest
from training_api.job.cluster import replica_host
from training_api.job.machines import Resources
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.store.database import open_database, read_meta
from training_service.store.job_search import JobSearch
from training_service.store.migrations import SCHEMA_VERSION
from training_service.store.tables import jobs

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


def test_the_trials_are_there_with_what_they_reported(world: World) -> None:
    output = world.get("tune").training_output

    assert output is not None
    first, second = output.trials or []
    assert (first.state, second.state) == (JobState.SUCCEEDED, JobState.RUNNING)
    assert first.final_metric is not None
    assert first.final_metric.objective_value == 1.0


def test_what_ended_before_has_an_unknown_cause_and_keeps_its_message(world: World) -> None:
    search = JobSearch(world.database, world.store.queue_positions, world.engine.clock)
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
    assert trial.spec.training_input.job_dir == "gs://bucket/tune/2"
    assert active(world, "waiting").spec.priority == 5
    with world.database.connect() as connection:
        forms = connection.execute(sa.select(jobs.c.spec)).scalars().all()
    assert {form["form"] for form in forms} == {1}


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
