"""A backup is taken while jobs run, and a service that is restored from it carries on."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from local_stack.parts.database import server_program
from tests.support.fakes.world import World
from training_api.states import JobState
from training_service.cli.parser import main
from training_service.store.database import open_database

GRACE = timedelta(minutes=10)


@pytest.fixture
def world(url: str) -> Iterator[World]:
    """A service with one job that runs and one that waits."""
    world = World(open_database(url), max_replicas=1, stranger_grace=GRACE)
    world.add_image(Behaviour(run_seconds=100))
    world.submit("runs")
    world.submit("waits")
    world.settle()
    yield world
    world.database.dispose()


@pytest.fixture
def copy(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Callable[[], str]:
    """
    Return a function that backs the database up and restores it.

    It returns the URL of the restored one.
    """
    parsed = sa.make_url(url)

    def copy_sqlite() -> str:
        assert main(["backup", str(tmp_path / "copy.db"), "--database-url", url]) == 0
        shutil.copy(tmp_path / "copy.db", tmp_path / "restored.db")
        return f"sqlite:///{tmp_path / 'restored.db'}"

    def copy_postgresql() -> str:
        restored = sa.make_url(request.getfixturevalue("postgresql").make_database())
        server = ["--host", str(parsed.query["host"]), "--username", str(parsed.username)]
        dump = str(tmp_path / "jobs.dump")
        run("pg_dump", *server, "--format=custom", "--file", dump, str(parsed.database))
        run("pg_restore", *server, "--dbname", str(restored.database), "--exit-on-error", dump)
        return restored.render_as_string(hide_password=False)

    return copy_sqlite if parsed.get_backend_name() == "sqlite" else copy_postgresql


def run(program: str, *arguments: str) -> None:
    subprocess.run([str(server_program(program)), *arguments], check=True, timeout=120)


def go_on_with(world: World, url: str) -> None:
    """Restart the service on another database; the engine keeps its containers."""
    world.database.dispose()
    world.database = open_database(url)
    world.restart()


def test_a_job_that_ran_goes_on_and_one_that_waited_comes_next(world: World, copy: Callable[[], str]) -> None:
    go_on_with(world, copy())
    world.settle()
    restored = (world.state("runs"), world.state("waits"))
    for _ in range(2):
        world.engine.advance(100)
        world.settle()

    assert restored == (JobState.RUNNING, JobState.QUEUED)
    assert (world.state("runs"), world.state("waits")) == (JobState.SUCCEEDED, JobState.SUCCEEDED)
    assert "Job runs is running." in world.messages("runs")


def test_containers_of_a_job_that_is_newer_than_the_copy_are_kept_for_a_while(
    world: World, copy: Callable[[], str]
) -> None:
    world.engine.advance(100)
    world.settle()
    world.engine.advance(100)
    world.settle()
    url = copy()
    world.submit("newer")
    world.settle()
    go_on_with(world, url)

    world.step()
    kept = len(world.engine.observe().replicas)
    world.engine.advance(GRACE.total_seconds())
    world.step()

    assert (kept, len(world.engine.observe().replicas)) == (1, 0)


def test_a_copy_can_be_made_while_jobs_are_created(world: World, copy: Callable[[], str]) -> None:
    done = threading.Event()
    created: list[str] = []

    def create() -> None:
        while not done.is_set():
            job_id = f"job{len(created)}"
            world.submit(job_id)
            created.append(job_id)

    thread = threading.Thread(target=create)
    thread.start()
    try:
        while len(created) < 5:
            done.wait(0.01)
        before = list(created)
        url = copy()
    finally:
        done.set()
        thread.join()
    go_on_with(world, url)

    assert {world.state(job_id) for job_id in before} == {JobState.QUEUED}
