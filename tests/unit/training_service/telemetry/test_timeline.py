"""What took a job's time: pulls and runs, restarts and trials, also across a kill."""

from __future__ import annotations

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.fleet.wire import SpanKind
from training_api.states import JobState


def spans(world: World) -> list[tuple[SpanKind, str, str, int | None]]:
    found = world.spans.of_job(world.store.get(PROJECT, "job").uid)
    return [(span.kind, span.name, span.attempt, span.exit_code) for span in found]


def test_a_job_is_a_pull_and_a_run(world: World) -> None:
    world.add_image(Behaviour(run_seconds=5))
    world.submit()
    world.settle()
    while_it_runs = spans(world)
    world.engine.advance(5)
    world.settle()

    pull, run = world.spans.of_job(world.store.get(PROJECT, "job").uid)

    assert while_it_runs == [
        (SpanKind.PULL, IMAGE, "", None),
        (SpanKind.RUN, "master-replica-0", "0.0", None),
    ]
    assert world.state() is JobState.SUCCEEDED
    assert pull.end_time is not None
    assert pull.pinned == f"{IMAGE.removesuffix(':1')}@sha256:{'0' * 64}"
    assert run.exit_code == 0
    assert run.end_time is not None
    assert (run.end_time - run.start_time).total_seconds() == 5


def test_restart_is_a_run_of_its_own_and_a_kill_of_the_service_changes_nothing(world: World) -> None:
    world.add_image(Behaviour(run_seconds=2, exit_code=137, failures=1))
    world.submit()
    for _ in range(6):
        world.settle()
        world.restart()
        world.engine.advance(1)
    world.settle()

    assert world.state() is JobState.SUCCEEDED
    assert spans(world)[1:] == [
        (SpanKind.RUN, "master-replica-0", "0.0", 137),
        (SpanKind.RUN, "master-replica-0", "0.1", 0),
    ]


def test_image_that_is_not_there_leaves_no_span(world: World) -> None:
    world.submit(image="registry.test/project/absent:1")
    world.settle()

    assert world.state() is JobState.FAILED
    assert spans(world) == []
