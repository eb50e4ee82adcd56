"""Following containers: every line once, whole, and the end only after the last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from container_engines.base import LogLine, LogStream, ObservedReplica
from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.world import IMAGE, PROJECT, World
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import ReplicaState
from training_service.intake.log_collector import LogCollector

WHOLE = LogLine(timestamp_ns=10**18, stream=LogStream.STDOUT, text="first half, second half")
HALF = replace(WHOLE, text="first half", is_whole=False)


class InterruptedEngine(MemoryEngine):
    """Its stream breaks off in the middle of a line, once; the next reading has all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = [[HALF], [WHOLE]]
        self.is_read = threading.Event()

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        yield from self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        self.is_read.set()


class RefusingEngine(MemoryEngine):
    """It counts how often it was asked for the log of a container that it does not have."""

    refusals = 0

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        self.refusals += 1
        return super().read_logs(container_id, since_ns, follow=follow)


def collect(world: World, engine: InterruptedEngine) -> list[str]:
    """Follow one container that runs when it is first seen, and ends; return what was stored."""
    world.add_image(image=IMAGE)
    world.submit()
    record = world.store.get(PROJECT, "job")
    running = ObservedReplica(
        job_uid=record.uid,
        replica=ReplicaId(role=ReplicaRole.MASTER),
        container_id="container",
        state=ReplicaState.RUNNING,
    )
    drained = threading.Event()
    collector = LogCollector(engine, world.logs, on_drained=drained.set)
    collector.start()

    collector.follow(record, running)
    assert engine.is_read.wait(scaled(60))
    collector.follow(record, replace(running, state=ReplicaState.EXITED, exit_code=0))

    assert drained.wait(scaled(60))
    assert collector.drained == {"container"}
    collector.stop()
    return [line for line in world.messages() if "half" in line]


def test_line_that_was_cut_by_a_broken_stream_is_stored_whole(world: World) -> None:
    assert collect(world, InterruptedEngine()) == ["first half, second half"]


def test_last_line_without_an_end_is_stored_when_nothing_more_can_come(world: World) -> None:
    engine = InterruptedEngine()
    engine.readings = [[HALF]]

    assert collect(world, engine) == ["first half"]


def test_a_container_that_is_gone_is_followed_no_more(world: World) -> None:
    world.add_image(image=IMAGE)
    world.submit()
    record = world.store.get(PROJECT, "job")
    running = ObservedReplica(
        job_uid=record.uid,
        replica=ReplicaId(role=ReplicaRole.MASTER),
        container_id="container",
        state=ReplicaState.RUNNING,
    )
    engine, ended = RefusingEngine(), threading.Event()
    collector = LogCollector(engine, world.logs, on_drained=ended.set)

    collector.follow(record, running)
    wait_until(lambda: engine.refusals > 1, "the engine is asked again: it may refuse a log that it has")
    assert not ended.is_set()
    collector.forget(present=[])

    assert ended.wait(scaled(60))
    collector.stop()
