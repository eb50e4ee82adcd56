"""Images that this service has pulled, and which of them go."""

from __future__ import annotations

import pytest

from container_engines.memory.engine import IMAGE_BYTES, Behaviour
from tests.support.fakes.world import World
from training_api.errors import EngineError
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.states import JobState
from training_service.access.image_access import AnyImage
from training_service.store.pull_store import PullStore
from training_service.upkeep.images import RecordedPulls, unused_images

NAMES = [f"registry.test/project/{name}:1" for name in ("first", "second", "third")]


@pytest.fixture
def pulls(world: World) -> PullStore:
    """What the world's service pulls; its engine has nothing yet."""
    pulls = PullStore(world.database)
    world.image_access = RecordedPulls(
        AnyImage(), world.engine, pulls, records_uses=True, clock=world.engine.clock
    )
    world.restart()
    for name in NAMES:
        world.engine.remove_image(world.add_image(Behaviour(run_seconds=10), name))
    return pulls


def ref(name: str) -> ImageRef:
    return parse_image_ref(name)


def run_jobs(world: World, *names: str) -> None:
    for number, name in enumerate(names):
        world.submit(f"job_{world.engine.now:%j%H%M%S}_{number}", name)
        world.settle()
        world.engine.advance(10)
        world.settle()


def remaining(world: World) -> list[str]:
    return [name for name in NAMES if world.engine.find_image(ref(name))]


def remove(world: World, pulls: PullStore, images: int, **options: object) -> int:
    task = unused_images(world.engine, pulls, total_bytes=images * IMAGE_BYTES, **options)  # type: ignore[arg-type]
    return sum(number for _, number in task())


def test_the_least_recently_used_go_until_the_rest_is_small_enough(world: World, pulls: PullStore) -> None:
    run_jobs(world, *NAMES, NAMES[0])

    assert remove(world, pulls, 3) == 0
    assert remove(world, pulls, 1) == 2
    assert remaining(world) == [NAMES[0]]
    assert [name for name, _ in pulls.by_use()] == [NAMES[0]]


def test_without_a_limit_nothing_goes(world: World, pulls: PullStore) -> None:
    run_jobs(world, *NAMES)

    assert remove(world, pulls, 0) == 0
    assert remaining(world) == NAMES


def test_images_of_others_stay(world: World, pulls: PullStore) -> None:
    world.engine.pull_image(ref(NAMES[0]))
    run_jobs(world, *NAMES)

    assert [name for name, _ in pulls.by_use()] == NAMES[1:]
    assert remove(world, pulls, 1) == 1
    assert remaining(world) == [NAMES[0], NAMES[2]]


def test_images_of_jobs_that_run_or_wait_stay(world: World, pulls: PullStore) -> None:
    run_jobs(world, *NAMES)
    world.submit("runs", NAMES[0])
    world.settle()
    assert world.state("runs") is JobState.RUNNING
    world.disk_problem = "full"
    # Another tag of the repository, as a check of access may replace a tag by a digest.
    world.submit("waits", NAMES[1].replace(":1", ":2"))

    task = unused_images(world.engine, pulls, total_bytes=1)

    assert list(task()) == [("images", 1)]
    assert remaining(world) == NAMES[:2]


def test_images_of_runtimes_stay(world: World, pulls: PullStore) -> None:
    run_jobs(world, *NAMES)

    assert remove(world, pulls, 1, keep={NAMES[0]}) == 2
    assert remaining(world) == [NAMES[0]]


def test_an_image_that_others_removed_is_forgotten(world: World, pulls: PullStore) -> None:
    run_jobs(world, *NAMES)
    world.engine.remove_image(ref(NAMES[0]))

    assert remove(world, pulls, 2) == 0
    assert [name for name, _ in pulls.by_use()] == NAMES[1:]


def test_an_image_that_the_engine_does_not_give_up_keeps_no_other(
    world: World, pulls: PullStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_jobs(world, *NAMES)
    remove_image = world.engine.remove_image

    def refuse(image: ImageRef) -> bool:
        if image == ref(NAMES[0]):
            raise EngineError("a bug of the engine")
        return remove_image(image)

    monkeypatch.setattr(world.engine, "remove_image", refuse)

    assert remove(world, pulls, 1) == 2
    assert remaining(world) == [NAMES[0]]


def test_a_removed_image_is_pulled_for_the_next_job(world: World, pulls: PullStore) -> None:
    run_jobs(world, NAMES[0])
    task = unused_images(world.engine, pulls, total_bytes=1)
    assert list(task()) == [("images", 1)]

    run_jobs(world, NAMES[0])

    assert [name for name, _ in pulls.by_use()] == [NAMES[0]]
