"""Work that the engine refuses is retried after growing pauses, or fails the job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from container_engines.base import ReplicaLaunch
from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.dialects.ml_v1.resources import ReplicaConfig
from training_api.errors import DiskFull, EngineBusy, EngineError, EngineUnavailable, ImageNotFound
from training_api.job.cluster import ReplicaRole
from training_api.states import JobState
from training_service.store.database import open_database

BUSY = EngineBusy("make network ct-1: could not find an available, non-overlapping IPv4 address pool")
DOWN = EngineUnavailable("make network ct-1: daemon is shutting down")


@pytest.fixture
def world() -> Iterator[World]:
    """A service that pauses for a second after the first refusal, and gives up after a minute."""
    world = World(open_database("sqlite://"), retry_seconds=1.0)
    world.add_image(Behaviour(run_seconds=600))
    yield world
    world.database.dispose()


def pass_seconds(world: World, seconds: int) -> None:
    """Let time pass as it does while the loop runs: an iteration each second."""
    for _ in range(seconds):
        world.engine.advance(1)
        world.step()


def lines_of_waiting(world: World) -> list[str]:
    return [line for line in world.messages() if "asking again" in line]


def test_a_start_that_is_refused_for_now_is_asked_for_again_after_growing_pauses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = world.engine.now
    asked: list[float] = []

    def start_replica(_: ReplicaLaunch) -> None:
        asked.append((world.engine.now - begin).total_seconds())
        raise BUSY

    monkeypatch.setattr(world.engine, "start_replica", start_replica)
    world.submit()
    world.settle()

    pass_seconds(world, 30)

    assert asked == [0, 1, 3, 7, 15, 25]
    assert world.state() is JobState.PREPARING


@pytest.mark.parametrize("refused", ["pull_error", "start_error"])
def test_a_job_that_was_refused_for_a_while_runs(world: World, refused: str) -> None:
    setattr(world.engine, refused, BUSY)
    world.submit()
    world.settle()
    pass_seconds(world, 20)

    setattr(world.engine, refused, None)
    pass_seconds(world, 12)

    assert world.state() is JobState.RUNNING
    assert lines_of_waiting(world) == [f"{BUSY}; asking again for 60 seconds"]


def test_each_new_reason_is_a_line_in_the_jobs_log(world: World) -> None:
    world.engine.start_error = EngineBusy("start container ct-1: removal of 0123abcd is in progress")
    world.submit()
    world.settle()
    pass_seconds(world, 5)
    world.engine.start_error = EngineBusy("start container ct-1: removal of 4567abcd is in progress")
    pass_seconds(world, 15)
    world.engine.start_error = DOWN
    pass_seconds(world, 30)

    assert sorted(lines_of_waiting(world)) == [
        f"{DOWN}; asking again",
        "start container ct-1: removal of 0123abcd is in progress; asking again for 60 seconds",
    ]


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        ("pull_error", "The image registry.test/project/trainer:1 could not be pulled for "),
        ("start_error", "The replica master 0 could not start for "),
    ],
)
def test_what_is_refused_for_too_long_fails_the_job(world: World, refused: str, message: str) -> None:
    setattr(world.engine, refused, BUSY)
    world.submit()
    world.settle()

    pass_seconds(world, 80)

    error = world.get().error_message or ""
    assert world.state() is JobState.FAILED
    assert error.startswith(message)
    assert error.endswith(f" seconds: {BUSY}")
    assert 60 <= int(error.removeprefix(message).split()[0]) <= 70


@pytest.mark.parametrize("refused", ["pull_error", "start_error"])
def test_an_engine_that_does_not_work_is_waited_for_without_a_limit(world: World, refused: str) -> None:
    setattr(world.engine, refused, DOWN)
    world.submit()
    world.settle()

    pass_seconds(world, 600)

    assert world.state() is JobState.PREPARING
    assert len(lines_of_waiting(world)) == 1


def test_the_time_without_an_engine_does_not_count_against_a_job(world: World) -> None:
    world.engine.start_error = DOWN
    world.submit()
    world.settle()
    pass_seconds(world, 600)

    world.engine.start_error = BUSY
    pass_seconds(world, 30)
    waiting = world.state()
    pass_seconds(world, 60)

    assert waiting is JobState.PREPARING
    assert world.state() is JobState.FAILED


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (
            "pull_error",
            EngineError("pull x: odd"),
            "of the replica master 0 could not be pulled: pull x: odd",
        ),
        ("pull_error", DiskFull("pull x: full"), "There is no room for the image"),
        ("start_error", EngineError("start x: bad mount"), "The replica master 0 could not start: start x"),
        ("start_error", DiskFull("start x: full"), "The replica master 0 could not start: start x: full"),
    ],
)
def test_what_is_final_fails_the_job_at_once(
    world: World, refused: str, error: EngineError, message: str
) -> None:
    setattr(world.engine, refused, error)
    world.submit()

    world.settle()

    assert world.state() is JobState.FAILED
    assert message in (world.get().error_message or "")
    assert lines_of_waiting(world) == []


def test_a_replica_that_can_never_start_fails_the_job_while_another_is_put_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_replica(launch: ReplicaLaunch) -> None:
        raise BUSY if launch.replica.role is ReplicaRole.MASTER else EngineError("exec format error")

    monkeypatch.setattr(world.engine, "start_replica", start_replica)
    world.submit(
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count=1,
        worker_config=ReplicaConfig(image_uri="registry.test/project/trainer:1"),
    )

    world.settle()

    assert world.state() is JobState.FAILED
    assert world.get().error_message == "The replica worker 0 could not start: exec format error"


def test_a_pause_does_not_hold_up_a_cancel(world: World) -> None:
    world.engine.start_error = BUSY
    world.submit()
    world.settle()

    world.jobs.cancel("project", "job")
    world.settle()

    assert world.state() is JobState.CANCELLED


def test_an_image_that_is_pulled_and_gone_again_and_again_fails_the_job(world: World) -> None:
    world.engine.start_error = ImageNotFound("make a container of x: No such image: x")
    world.submit()
    world.settle()

    pass_seconds(world, 90)

    assert world.state() is JobState.FAILED
    assert "No such image" in (world.get().error_message or "")
