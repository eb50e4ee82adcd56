"""Jobs that take more disk than they may: which fail, why, and what leaves the others alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from container_engines.disk_use import DiskUse, FolderHidden
from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.support.fakes.world import PROJECT, World
from training_api.causes import Cause
from training_api.dialects.registry import DIALECTS
from training_api.errors import EngineError, EngineUnavailable
from training_api.states import JobState, ReplicaState
from training_service.model.disk import disk_limit
from training_service.store.database import open_database
from training_service.upkeep import disk_watch as module
from training_service.upkeep.disk_watch import DiskWatch

MOST = DiskUse(bytes=1_000_000, files=100)
FULL = "registry.test/project/full:1"


@dataclass
class Objects:
    """An object store."""

    use: dict[str, DiskUse] = field(default_factory=dict)
    asked: list[datetime] = field(default_factory=list)

    def below(self, directory: str, since: datetime) -> DiskUse | None:
        self.asked.append(since)
        return self.use.get(directory)


class Silent(MemoryEngine):
    """Does not tell what the containers of some jobs have written."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, Exception] = {}
        self.looked = 0

    def read_disk(self, container_id: str, most: DiskUse) -> DiskUse | None:
        self.looked += 1
        if error := self.refused.get(container_id.partition("-")[0]):
            raise error
        return super().read_disk(container_id, most)


@dataclass
class Bench:
    """A service with a watch, and a clock that the test turns."""

    world: World
    engine: Silent
    watch: DiskWatch
    objects: Objects
    metrics: Path
    seconds: list[float]

    def show(self) -> None:
        """Show the watch what the loop sees."""
        jobs = {job.uid: job for job in self.world.store.list_active()}
        for observed in self.engine.observe().replicas:
            self.watch.follow(jobs[observed.job_uid], observed)

    def look(self) -> None:
        self.show()
        self.watch.look()

    def uid(self, job_id: str = "job") -> str:
        return self.world.store.get(PROJECT, job_id).uid


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    engine, objects, seconds = Silent(), Objects(), [1000.0]
    world = World(open_database("sqlite://"), engine=engine)
    world.add_image(Behaviour(run_seconds=1000))
    world.add_image(Behaviour(run_seconds=1000, disk=DiskUse(bytes=1_000_001, files=3)), FULL)
    watch = DiskWatch(
        engine,
        MOST,
        dialects=DIALECTS,
        metric_folders=tmp_path,
        objects=objects,
        fail=lambda record, reason: world.actions.fail(record, reason),
        clock=lambda: seconds[0],
    )
    return Bench(world, engine, watch, objects, tmp_path, seconds)


def test_a_job_whose_container_wrote_too_much_fails_with_the_reason(bench: Bench) -> None:
    bench.world.submit(image=FULL)
    bench.world.settle()

    bench.look()

    (job,) = bench.world.store.list_active()
    assert (job.state, job.outcome) == (JobState.RUNNING, JobState.FAILED)
    assert [one.state for one in bench.engine.observe().replicas] == [ReplicaState.RUNNING]
    bench.world.settle()
    ended = bench.world.get()
    assert ended.state is JobState.FAILED
    assert ended.error_message == (
        "The replica master 0 has written at least 1,000,001 bytes in 3 files to its container's root; allowed are "
        "1,000,000 bytes and 100 files (TRAINING_DISK_LIMIT_BYTES, TRAINING_DISK_LIMIT_FILES)."
    )
    assert f"Job failed: {ended.error_message}" in bench.world.messages()
    assert bench.engine.observe().replicas == ()


def test_a_service_that_is_killed_after_the_reason_is_written_stops_the_job(bench: Bench) -> None:
    bench.world.submit(image=FULL)
    bench.world.settle()
    bench.look()

    bench.world.restart()
    bench.world.settle()

    assert bench.world.state() is JobState.FAILED


def test_a_job_within_its_limits_goes_on(bench: Bench) -> None:
    bench.world.submit(job_dir="gs://bucket/job")
    bench.objects.use["gs://bucket/job"] = MOST
    bench.world.settle()
    (bench.metrics / bench.uid()).mkdir()

    bench.look()

    assert bench.world.store.list_active()[0].outcome is None
    assert bench.objects.asked == [bench.world.store.get(PROJECT, "job").created_at]


def test_a_job_with_too_many_objects_fails(bench: Bench) -> None:
    bench.world.submit(job_dir="gs://bucket/job")
    bench.objects.use["gs://bucket/job"] = DiskUse(bytes=1, files=101)
    bench.world.settle()

    bench.look()

    (job,) = bench.world.store.list_active()
    assert job.reason is not None
    assert job.reason.cause is Cause.DISK
    assert "at least 1 bytes in 101 files to its job directory gs://bucket/job;" in job.reason.message


def test_a_job_that_fills_the_folder_of_its_metrics_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "METRICS_LIMIT", DiskUse(bytes=10**9, files=5))
    monkeypatch.setattr(disk_limit, "METRICS_LIMIT", DiskUse(bytes=10**9, files=5))
    bench.world.submit()
    bench.world.settle()
    folder = bench.metrics / bench.uid() / "mount"
    folder.mkdir(parents=True)
    for number in range(5):
        (folder / str(number)).touch()

    bench.look()

    (job,) = bench.world.store.list_active()
    assert job.reason is not None
    assert "in 6 files to its folder for metrics" in job.reason.message
    assert "TRAINING_" not in job.reason.message


def test_a_job_that_hides_what_it_wrote_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def hides(*_: object) -> DiskUse:
        raise FolderHidden("cannot be read")

    monkeypatch.setattr(module, "use_of_folders", hides)
    bench.world.submit()
    bench.world.settle()
    (bench.metrics / bench.uid()).mkdir()

    bench.look()

    (job,) = bench.world.store.list_active()
    assert job.reason is not None
    assert "a folder that the service cannot read in its folder for metrics" in job.reason.message


@pytest.mark.parametrize("error", [EngineUnavailable("away"), EngineError("cannot"), RuntimeError("a bug")])
def test_a_container_that_cannot_be_looked_at_leaves_the_others_alone(bench: Bench, error: Exception) -> None:
    bench.world.submit("first")
    bench.world.submit("second", image=FULL)
    bench.world.settle()
    bench.engine.refused[bench.uid("first")] = error

    bench.look()

    outcomes = {job.spec.job_id: job.outcome for job in bench.world.store.list_active()}
    assert outcomes == {"first": None, "second": JobState.FAILED}


def test_a_reason_that_cannot_be_written_is_written_later(bench: Bench) -> None:
    bench.world.submit(image=FULL)
    bench.world.settle()
    fail: Callable[..., None] = bench.world.actions.fail

    def is_busy(*_: object) -> None:
        raise RuntimeError("the database is busy")

    bench.world.actions.fail = is_busy  # type: ignore[method-assign]
    bench.look()
    bench.world.actions.fail = fail  # type: ignore[method-assign]
    assert bench.world.store.list_active()[0].outcome is None

    bench.seconds[0] += 15
    bench.look()

    assert bench.world.store.list_active()[0].outcome is JobState.FAILED


def test_looks_come_at_intervals_and_later_where_they_take_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_REST_SECONDS", 0.0)
    bench.world.submit()
    bench.world.settle()
    bench.look()
    bench.look()
    assert bench.engine.looked == 1

    read = bench.engine.read_disk

    def takes(seconds: float) -> None:
        def slowly(container_id: str, most: DiskUse) -> DiskUse | None:
            bench.seconds[0] += seconds
            return read(container_id, most)

        monkeypatch.setattr(bench.engine, "read_disk", slowly)

    for took, pause in ((2, 40), (60, 120)):
        takes(took)
        bench.seconds[0] += 200
        bench.look()
        looked = bench.engine.looked
        bench.seconds[0] += pause - 1
        bench.look()
        assert bench.engine.looked == looked
        bench.seconds[0] += 1
        bench.look()
        assert bench.engine.looked == looked + 1


def test_what_has_ended_or_is_gone_is_not_looked_at(bench: Bench) -> None:
    bench.world.submit("ends")
    bench.world.submit("goes")
    bench.world.settle()
    bench.show()
    ends, goes = (bench.uid(name) for name in ("ends", "goes"))
    (kept,) = (one for one in bench.engine.observe().replicas if one.job_uid == ends)

    bench.watch.forget({kept.container_id})
    bench.engine.end(ends, kept.replica, 0)
    for observed in bench.engine.observe().replicas:
        if observed.job_uid == ends:
            bench.watch.follow(bench.world.store.list_active()[0], observed)
    bench.watch.look()

    assert goes
    assert bench.engine.looked == 0


def test_no_limit_stops_nothing(bench: Bench) -> None:
    bench.world.submit(image=FULL)
    bench.world.settle()
    watch = DiskWatch(
        bench.engine,
        DiskUse(bytes=0, files=0),
        dialects=DIALECTS,
        metric_folders=bench.metrics,
        objects=None,
        fail=bench.world.actions.fail,
    )
    for observed in bench.engine.observe().replicas:
        watch.follow(bench.world.store.list_active()[0], observed)

    watch.look()

    assert bench.world.store.list_active()[0].outcome is None
