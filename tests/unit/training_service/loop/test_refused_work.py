"""Work that the engine refuses is retried after growing pauses, or fails the job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from container_engines.base import PulledImage, ReplicaLaunch, StillStarting
from container_engines.memory.engine import Behaviour, MemoryEngine
from container_engines.pull_watch import PullWatch
from tests.support.fakes.world import World
from tests.support.speed import scaled
from training_api.dialects.ml_v1.resources import ReplicaConfig
from training_api.errors import DiskFull, EngineBusy, EngineError, EngineUnavailable, ImageNotFound
from training_api.job.cluster import ReplicaRole
from training_api.job.image_ref import ImageRef
from training_api.states import JobState
from training_service.loop.pools import SLOTS, Pools
from training_service.model.work import RemoveJob, Work
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


def submit_refused(world: World, refused: str, error: EngineError) -> None:
    """Submit a job whose pull (``pull_error``) or start (``start_error``) the engine refuses."""
    setattr(world.engine, refused, error)
    world.submit()
    world.settle()


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
    submit_refused(world, refused, BUSY)
    pass_seconds(world, 20)

    setattr(world.engine, refused, None)
    pass_seconds(world, 12)

    assert world.state() is JobState.RUNNING
    assert lines_of_waiting(world) == [f"{BUSY}; asking again for 60 seconds"]


def test_each_new_reason_is_a_line_in_the_jobs_log(world: World) -> None:
    submit_refused(
        world, "start_error", EngineBusy("start container ct-1: removal of 0123abcd is in progress")
    )
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
    submit_refused(world, refused, BUSY)

    pass_seconds(world, 80)

    error = world.get().error_message or ""
    assert world.state() is JobState.FAILED
    assert error.startswith(message)
    assert error.endswith(f" seconds: {BUSY}")
    assert 60 <= int(error.removeprefix(message).split()[0]) <= 70


@pytest.mark.parametrize("refused", ["pull_error", "start_error"])
def test_an_outage_between_two_refusals_does_not_count_against_a_job(world: World, refused: str) -> None:
    """The engine is away for three hours, and the first ask after it is refused."""
    submit_refused(world, refused, BUSY)
    pass_seconds(world, 10)

    world.engine.advance(10800)
    world.settle()
    after_the_outage = world.state()
    pass_seconds(world, 80)

    assert after_the_outage is JobState.PREPARING
    assert world.state() is JobState.FAILED


@pytest.mark.parametrize("refused", ["pull_error", "start_error"])
def test_the_limit_goes_on_where_it_was_when_the_service_is_restarted(world: World, refused: str) -> None:
    submit_refused(world, refused, BUSY)

    for _ in range(3):
        pass_seconds(world, 25)
        world.restart()
    pass_seconds(world, 10)

    assert world.state() is JobState.FAILED
    assert len(lines_of_waiting(world)) == 1


def test_a_limit_begins_with_the_first_refusal_however_long_the_job_has_prepared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull_image = world.engine.pull_image

    def pull_for_an_hour(ref: ImageRef, token: str = "", watch: PullWatch | None = None) -> PulledImage:
        world.engine.advance(3600)
        return pull_image(ref, token, watch)

    monkeypatch.setattr(world.engine, "pull_image", pull_for_an_hour)
    world.engine.start_error = BUSY
    world.submit()

    world.settle()
    pass_seconds(world, 40)

    assert world.state() is JobState.PREPARING


@pytest.mark.parametrize("refused", ["pull_error", "start_error"])
def test_an_engine_that_does_not_work_is_waited_for_without_a_limit(world: World, refused: str) -> None:
    submit_refused(world, refused, DOWN)

    pass_seconds(world, 600)

    assert world.state() is JobState.PREPARING
    assert len(lines_of_waiting(world)) == 1


def test_the_time_without_an_engine_does_not_count_against_a_job(world: World) -> None:
    submit_refused(world, "start_error", DOWN)
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
    submit_refused(world, refused, error)

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
    submit_refused(world, "start_error", BUSY)

    world.jobs.cancel("project", "job")
    world.settle()

    assert world.state() is JobState.CANCELLED


class SlowMachines(MemoryEngine):
    """Its machines pull: a start is ``StillStarting`` until ``has_image``."""

    has_image = False

    def start_replica(self, launch: ReplicaLaunch) -> None:
        if not self.has_image:
            raise StillStarting("a replica still prepares on machine one after 3 s")
        super().start_replica(launch)


@pytest.fixture
def slow() -> Iterator[World]:
    """A service on such machines."""
    world = World(open_database("sqlite://"), SlowMachines(), retry_seconds=1.0)
    world.add_image(Behaviour(run_seconds=600))
    yield world
    world.database.dispose()


def test_a_job_is_cancelled_at_once_while_a_machine_pulls_its_image(slow: World) -> None:
    slow.submit()
    pass_seconds(slow, 30)
    before = slow.state()

    slow.jobs.cancel("project", "job")
    pass_seconds(slow, 3)

    assert before is JobState.PREPARING
    assert slow.state() is JobState.CANCELLED


def test_a_start_that_takes_its_time_is_neither_an_error_nor_a_refusal(slow: World) -> None:
    slow.submit()
    pass_seconds(slow, 1200)
    slow.engine.has_image = True  # type: ignore[attr-defined]
    pass_seconds(slow, 12)

    assert slow.state() is JobState.RUNNING
    assert lines_of_waiting(slow) == []
    assert slow.metrics.registry.get_sample_value("training_engine_errors_total") == 0


def test_what_the_replicas_get_is_in_the_log_once_however_often_a_start_is_asked_for(slow: World) -> None:
    slow.submit(scale_tier="CUSTOM", master_type="n1-highmem-96")
    pass_seconds(slow, 60)
    slow.engine.has_image = True  # type: ignore[attr-defined]
    pass_seconds(slow, 12)

    assert slow.state() is JobState.RUNNING
    assert len([line for line in slow.messages() if "this machine gives" in line]) == 1


def test_a_pull_that_is_given_up_is_no_refusal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is cancelled while its image is pulled; the loop sees it."""
    pull_image = world.engine.pull_image

    def cancel_and_pull(ref: ImageRef, token: str = "", watch: PullWatch | None = None) -> PulledImage:
        world.jobs.cancel("project", "job")
        world.step()
        return pull_image(ref, token, watch)

    monkeypatch.setattr(world.engine, "pull_image", cancel_and_pull)
    world.submit()

    world.settle()

    assert world.state() is JobState.CANCELLED
    assert lines_of_waiting(world) == []
    assert not [line for line in world.messages() if "pulled" in line]


def test_an_image_that_is_pulled_and_gone_again_and_again_fails_the_job(world: World) -> None:
    submit_refused(world, "start_error", ImageNotFound("make a container of x: No such image: x"))

    pass_seconds(world, 90)

    assert world.state() is JobState.FAILED
    assert "No such image" in (world.get().error_message or "")


def test_jobs_for_which_there_is_no_network_wait_in_the_queue_and_do_not_fail() -> None:
    world = World(open_database("sqlite://"), MemoryEngine(networks=2), max_replicas=10, retry_seconds=1.0)
    world.add_image(Behaviour(run_seconds=600))
    names = ["first", "second", "third"]
    for name in names:
        world.submit(name)
        world.settle()
    pass_seconds(world, 300)

    waiting = [world.state(name) for name in names]
    pass_seconds(world, 310)

    assert waiting == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    assert world.state("third") is JobState.RUNNING
    assert not [line for line in world.messages("third") if "asking again" in line]
    world.database.dispose()


def test_jobs_of_one_replica_need_no_network_where_they_share_one() -> None:
    world = World(open_database("sqlite://"), MemoryEngine(networks=2, shares_network=True), max_replicas=10)
    world.add_image(Behaviour(run_seconds=600))
    names = ["first", "second", "third"]
    for name in names:
        world.submit(name)
    world.settle()

    assert [world.state(name) for name in names] == [JobState.RUNNING] * 3
    world.database.dispose()


def test_a_removal_that_is_refused_is_asked_for_again_after_growing_pauses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit()
    world.settle()
    world.submit("other")
    world.settle()
    asked: dict[str, list[float]] = {}
    begin = world.engine.now

    def remove_job(job_uid: str) -> None:
        asked.setdefault(job_uid, []).append((world.engine.now - begin).total_seconds())
        raise EngineError("remove container ct-1: driver failed to remove root filesystem")

    monkeypatch.setattr(world.engine, "remove_job", remove_job)
    world.jobs.cancel("project", "job")
    world.settle()
    pass_seconds(world, 10)
    world.jobs.cancel("project", "other")
    world.settle()

    pass_seconds(world, 20)

    first, other = asked.values()
    assert first == [0, 1, 3, 7, 15, 25]
    assert other == [10, 11, 13, 17, 25]


@pytest.mark.extended
def test_nobody_sleeps_in_the_pause_of_refused_work() -> None:
    """The place of a removal is free again at once."""
    places: list[bool] = []
    pools = Pools({**SLOTS, RemoveJob: 1})

    class Counting:
        def start(self, work: Work, do: Callable[[], None], after: Callable[[], None]) -> bool:
            ended = threading.Event()
            started = pools.start(work, do, ended.set)
            assert ended.wait(scaled(30))
            places.append(started)
            return started

    world = World(open_database("sqlite://"), retry_seconds=3600, workers=Counting())
    world.add_image(Behaviour(run_seconds=600))
    for name in ("job", "other"):
        world.submit(name)
        world.settle()
    world.engine.remove_error = EngineError("remove container ct-1: driver failed")

    for name in ("job", "other"):
        world.jobs.cancel("project", name)
        world.settle()

    assert all(places)
    assert world.state("other") is JobState.CANCELLED
    world.database.dispose()
