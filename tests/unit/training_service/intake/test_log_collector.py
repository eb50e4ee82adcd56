"""Following containers: every line once, whole, and the end only after the last."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.base import LogLine, LogStream, ObservedReplica
from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.world import IMAGE, PROJECT, World
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.dialects.registry import DIALECTS
from training_api.errors import EngineUnavailable
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import ReplicaState
from training_service.intake.log_batch import LogBatch
from training_service.intake.log_collector import LogCollector
from training_service.intake.log_limiter import LogLimit, Loss
from training_service.intake.log_reading import LogReading
from training_service.model.records import JobRecord, Trial
from training_service.store.logs.log_store import LogStore, NewLogEntry

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


class HangingEngine(MemoryEngine):
    """
    Its followers never return before ``release`` is set, and then give a line.

    :param hangs_at_the_end: the reading without following does not return either.
    """

    def __init__(self, *, hangs_at_the_end: bool = False) -> None:
        super().__init__()
        self.hangs_at_the_end = hangs_at_the_end
        self.release, self.line_was_taken = threading.Event(), threading.Event()
        self.readings: list[bool] = []

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        self.readings.append(follow)
        if follow or self.hangs_at_the_end:
            self.release.wait(scaled(120))
            try:
                yield replace(WHOLE, timestamp_ns=WHOLE.timestamp_ns + 10**9, text="too late")
            finally:
                self.line_was_taken.set()
        else:
            yield WHOLE


class KeepingEngine(MemoryEngine):
    """It answers, and gives nobody the log."""

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        raise EngineUnavailable("no log now")


class AwayEngine(MemoryEngine):
    """It does not answer until ``available`` is set; its log has no lines; it counts its pings."""

    def __init__(self) -> None:
        super().__init__()
        self.available = False
        self.pings = 0

    def ping(self) -> str:
        self.pings += 1
        return super().ping()

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        self._answer()
        yield from ()


class RefusingEngine(MemoryEngine):
    """It counts how often it was asked for the log of a container that it does not have."""

    refusals = 0

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        self.refusals += 1
        return super().read_logs(container_id, since_ns, follow=follow)


def submitted(world: World) -> tuple[JobRecord, ObservedReplica]:
    """Return a job, and its master that runs."""
    world.add_image(image=IMAGE)
    world.submit()
    record = world.store.get(PROJECT, "job")
    running = ObservedReplica(
        job_uid=record.uid,
        replica=ReplicaId(role=ReplicaRole.MASTER),
        container_id="container",
        state=ReplicaState.RUNNING,
    )
    return record, running


def exited(running: ObservedReplica) -> ObservedReplica:
    return replace(running, state=ReplicaState.EXITED, exit_code=0)


def collect(world: World, engine: InterruptedEngine) -> list[str]:
    """Follow one container that runs when it is first seen, and ends; return what was stored."""
    record, running = submitted(world)
    drained = threading.Event()
    collector = LogCollector(engine, world.logs, on_drained=drained.set, dialects=DIALECTS)
    collector.start()

    collector.follow(record, running)
    assert engine.is_read.wait(scaled(60))
    collector.follow(record, exited(running))

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
    record, running = submitted(world)
    engine, ended = RefusingEngine(), threading.Event()
    collector = LogCollector(engine, world.logs, on_drained=ended.set, dialects=DIALECTS)

    collector.follow(record, running)
    wait_until(lambda: engine.refusals > 1, "the engine is asked again: it may refuse a log that it has")
    assert not ended.is_set()
    collector.forget(present=[])

    assert ended.wait(scaled(60))
    collector.stop()


def test_a_database_that_was_full_gets_every_line_when_it_has_room(world: World) -> None:
    record, running = submitted(world)
    engine, refused, drained = InterruptedEngine(), threading.Event(), threading.Event()
    engine.readings = [[WHOLE]]
    is_full = True

    class FullStore(LogStore):
        """It takes no entry while the database is full."""

        def append(self, entries: Sequence[NewLogEntry]) -> None:
            if is_full:
                refused.set()
                raise sa.exc.OperationalError("INSERT", {}, Exception("database or disk is full"))
            super().append(entries)

    collector = LogCollector(engine, FullStore(world.database), on_drained=drained.set, dialects=DIALECTS)
    collector.follow(record, exited(running))
    assert refused.wait(scaled(60))
    assert not collector.drained
    is_full = False

    assert drained.wait(scaled(60))
    assert collector.drained == {"container"}
    assert world.messages().count(WHOLE.text) == 1
    collector.stop()


def drain(world: World, engine: MemoryEngine) -> list[Loss]:
    """Follow a container until it ends and counts as drained; return the losses."""
    record, running = submitted(world)
    losses: list[Loss] = []
    drained = threading.Event()
    collector = LogCollector(
        engine,
        world.logs,
        drained.set,
        dialects=DIALECTS,
        on_loss=losses.append,
        end_seconds=0.2,
        last_seconds=0.2,
    )
    collector.start()
    collector.follow(record, running)
    collector.follow(record, exited(running))
    assert drained.wait(scaled(60))
    assert collector.drained == {"container"}
    collector.stop()
    return losses


def drain_hung(world: World, engine: HangingEngine) -> LogCollector:
    """Return a collector that gave up its hung follower once the container had ended."""
    record, running = submitted(world)
    drained = threading.Event()
    collector = LogCollector(
        engine, world.logs, drained.set, dialects=DIALECTS, end_seconds=0.2, last_seconds=scaled(60)
    )
    collector.start()
    collector.follow(record, running)
    wait_until(lambda: engine.readings, "the container is followed")
    collector.follow(record, exited(running))
    assert drained.wait(scaled(60))
    return collector


def test_what_a_hung_follower_does_not_give_is_read_without_following(world: World) -> None:
    engine = HangingEngine()

    collector = drain_hung(world, engine)

    assert collector.drained == {"container"}
    assert engine.readings == [True, False]
    assert [line for line in world.messages() if "half" in line] == [WHOLE.text]
    collector.stop()
    engine.release.set()


def test_a_follower_that_wakes_up_when_it_was_abandoned_stores_nothing(world: World) -> None:
    engine = HangingEngine()
    collector = drain_hung(world, engine)

    engine.release.set()
    assert engine.line_was_taken.wait(scaled(60))

    assert "too late" not in world.messages()
    assert collector.drained == {"container"}
    collector.stop()


def test_a_follower_that_wakes_up_while_it_is_abandoned_is_read_after_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings, close = list[LogReading](), LogBatch.close
    begin = LogReading.__init__

    def beginning(reading: LogReading, *args: Any, **options: Any) -> None:
        begin(reading, *args, **options)
        readings.append(reading)

    def closing(batch: LogBatch, **options: Any) -> None:
        close(batch, **options)
        readings[0].is_last = True

    monkeypatch.setattr(LogReading, "__init__", beginning)
    monkeypatch.setattr(LogBatch, "close", closing)
    engine = HangingEngine()

    drain_hung(world, engine).stop()
    engine.release.set()

    assert engine.readings == [True, False]
    assert [line for line in world.messages() if "half" in line] == [WHOLE.text]


def test_a_log_that_never_comes_ends_with_a_warning_and_counts_as_a_loss(world: World) -> None:
    engine = HangingEngine(hangs_at_the_end=True)
    losses = drain(world, engine)
    engine.release.set()

    assert [loss.is_end for loss in losses] == [True]
    assert [line for line in world.messages() if "end of this replica's log may be missing" in line]


def test_an_engine_that_answers_but_gives_no_log_holds_up_no_job(world: World) -> None:
    losses = drain(world, KeepingEngine())

    assert [loss.is_end for loss in losses] == [True]


@pytest.mark.extended
def test_an_engine_that_is_away_gives_its_log_when_it_is_back(world: World) -> None:
    engine = AwayEngine()
    record, running = submitted(world)
    drained, losses = threading.Event(), list[Loss]()
    collector = LogCollector(
        engine,
        world.logs,
        drained.set,
        dialects=DIALECTS,
        on_loss=losses.append,
        end_seconds=1.0,
        last_seconds=1.0,
    )
    collector.start()

    collector.follow(record, exited(running))

    wait_until(lambda: engine.pings > 4, "it was away for much longer than one that answers is waited for")
    assert not drained.is_set()
    engine.available = True
    assert drained.wait(scaled(60))
    assert losses == []
    collector.stop()


class TalkingEngine(MemoryEngine):
    """Each of its containers has said ten lines of ten bytes, and ended."""

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        for place in range(10):
            text = f"{container_id} {place}".ljust(10, ".")
            yield LogLine(timestamp_ns=10**18 + place, stream=LogStream.STDOUT, text=text)


class NoLoopThread(LogStore):
    """It refuses to be asked for sizes by the thread that made it."""

    def text_bytes(self, project: str, job_id: str) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return super().text_bytes(project, job_id)


def test_the_trials_of_a_study_share_one_budget_also_after_a_restart(world: World) -> None:
    world.logs = NoLoopThread(world.database, world.engine.clock)
    record, running = submitted(world)
    written = LogStore.text_bytes(world.logs, PROJECT, "job")
    limit = LogLimit(job_bytes=written + 250, tail_lines=1)
    for number in range(4):  # each is followed by a service of its own
        trial = Trial(study_uid="study", study_sequence=1, number=number + 1, hyperparameters={})
        drained = threading.Event()
        collector = LogCollector(TalkingEngine(), world.logs, drained.set, dialects=DIALECTS, limit=limit)
        collector.follow(
            replace(record, uid=f"trial{number}", trial=trial),
            replace(exited(running), container_id=f"trial {number + 1}"),
        )
        assert drained.wait(scaled(60))
        collector.stop()

    said = Counter(line[:7] for line in world.messages() if line.startswith("trial "))
    assert said == {"trial 1": 10, "trial 2": 10, "trial 3": 6, "trial 4": 1}
