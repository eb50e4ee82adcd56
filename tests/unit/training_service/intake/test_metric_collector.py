"""
Collecting metrics: every report once.

Whatever the trainer's pace and end, and whatever it does to its folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from container_engines.base import METRIC_FILE_NAME, ObservedReplica, StillStarting
from container_engines.docker.engine import DockerEngine
from tests.support.fakes import reporter
from tests.support.fakes.studies import search
from tests.support.fakes.world import PROJECT, World
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.errors import EngineUnavailable, InvalidJobSpec, JobConflict
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import ReplicaState
from training_service.intake.metric_collector import MetricCollector, check_metrics_can_be_read
from training_service.intake.metric_reader import MetricReader
from training_service.intake.metric_stream import StreamName
from training_service.intake.report_sink import StoredReports
from training_service.model.records import JobRecord, Trial
from training_service.store.database import open_database
from training_service.store.measurement_store import MeasurementStore

MASTER = ReplicaId(role=ReplicaRole.MASTER)
#: How long a trainer, or the collection of its reports, may take to end on an idle machine.
END_SECONDS = 60.0
LINE = b'{"accuracy": "0.5", "checkpoint_path": "", "global_step": "1", "timestamp": 1.5, "trial": "1"}\n'


def make_record(world: World) -> JobRecord:
    world.add_image()
    with suppress(JobConflict):
        world.submit()
    trial = Trial(study_uid="study", study_sequence=1, number=1, hyperparameters={})
    return replace(world.store.get(PROJECT, "job"), trial=trial)


class Collected:
    """A collector over a folder of the test's own, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "metrics"
        self.store = MeasurementStore(open_database(f"sqlite:///{folder / 'metrics.db'}"))
        self.notes: list[str] = []
        self.is_drained = threading.Event()
        sink = StoredReports(self.store, lambda _, message: self.notes.append(message))
        self.collector = MetricCollector(
            MetricReader(self.root, sink, self.is_drained.set),
            note=lambda _, message: self.notes.append(message),
        )

    def end(self, record: JobRecord) -> None:
        """Tell that the container has ended, and wait until its last report is stored."""
        self.collector.follow(record, observed(record, ReplicaState.EXITED))
        assert self.is_drained.wait(scaled(END_SECONDS))
        assert self.collector.drained == {"container"}

    def steps(self, record: JobRecord) -> list[int]:
        return [one.report.step for one in self.store.newer(record.uid, "accuracy", 0, 10**6)]


@contextmanager
def collecting(folder: Path, keep: tuple[str, ...] = ()) -> Iterator[Collected]:
    collected = Collected(folder)
    collected.collector.start(keep)
    yield collected
    collected.collector.stop()


def observed(record: JobRecord, state: ReplicaState) -> ObservedReplica:
    return ObservedReplica(
        job_uid=record.uid,
        replica=MASTER,
        container_id="container",
        state=state,
        exit_code=0 if state is ReplicaState.EXITED else None,
    )


def run_reporter(mount: str, count: int, pause: float, *options: str) -> subprocess.Popen[str]:
    program = [sys.executable, reporter.__file__, f"{mount}/{METRIC_FILE_NAME}", str(count), str(pause)]
    return subprocess.Popen([*program, *options], stdout=subprocess.PIPE, text=True)


@pytest.mark.extended
@pytest.mark.parametrize("option", [(), ("new",)], ids=["one reporter", "a reporter for each report"])
def test_a_tight_loop_loses_no_report(world: World, tmp_path: Path, option: tuple[str, ...]) -> None:
    record = make_record(world)

    with collecting(tmp_path) as collected:
        trainer = run_reporter(collected.collector.prepare(record, MASTER), 1000, 0, *option)
        trainer.communicate(timeout=scaled(END_SECONDS))
        collected.end(record)

    assert collected.steps(record) == list(range(1, 1001))
    assert collected.notes == []


def test_what_was_reported_before_a_trainer_is_killed_is_stored(world: World, tmp_path: Path) -> None:
    record = make_record(world)

    with collecting(tmp_path) as collected:
        trainer = run_reporter(collected.collector.prepare(record, MASTER), 10**6, 0)
        assert trainer.stdout
        done = [int(trainer.stdout.readline()) for _ in range(250)]
        trainer.kill()
        done += [int(line) for line in trainer.communicate()[0].splitlines()]
        collected.end(record)

    # The report that it was killed in may be there, too.
    assert collected.steps(record)[: len(done)] == done
    assert len(collected.steps(record)) <= len(done) + 1


_SERVICE = """
import sys, time
from pathlib import Path
from tests.unit.training_service.intake.test_metric_collector import MASTER
from tests.unit.training_service.intake.test_metric_collector import Collected
from tests.unit.training_service.intake.test_metric_collector import make_record
from tests.support.fakes.studies import search
from tests.support.fakes.world import World
from training_service.store.database import open_database
folder = Path(sys.argv[1])
record = make_record(World(open_database(f"sqlite:///{folder / 'jobs.db'}")))
collected = Collected(folder)
collected.collector.start()
print(record.uid, collected.collector.prepare(record, MASTER), flush=True)
time.sleep(60)
"""


@pytest.mark.extended
def test_a_service_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    service = subprocess.Popen(
        [sys.executable, "-c", _SERVICE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert service.stdout
    uid, mount = service.stdout.readline().split()
    trainer = run_reporter(mount, 300, 0.01)
    assert trainer.stdout
    seen = [int(trainer.stdout.readline()) for _ in range(210)]
    record = make_record(World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}")))
    service.kill()
    service.communicate()
    while len(seen) < 230:  # fewer than the file keeps
        seen.append(int(trainer.stdout.readline()))

    with collecting(tmp_path, keep=(uid,)) as collected:
        collected.collector.follow(record, observed(record, ReplicaState.RUNNING))
        trainer.communicate(timeout=scaled(END_SECONDS))
        collected.end(record)

    assert collected.steps(record) == list(range(1, 301))
    assert collected.notes == []


def test_a_gap_is_told_in_the_log_of_the_job(world: World, tmp_path: Path) -> None:
    record = make_record(world)
    with collecting(tmp_path) as before:
        mount = before.collector.prepare(record, MASTER)
        run_reporter(mount, 50, 0).communicate(timeout=scaled(END_SECONDS))
        wait_until(lambda: len(before.steps(record)) == 50, "all reports are stored")
    run_reporter(mount, 250, 0).communicate(timeout=scaled(END_SECONDS))  # nobody reads

    with collecting(tmp_path, keep=(record.uid,)) as collected:
        collected.end(record)

    assert collected.steps(record) == [*range(1, 51), *range(151, 251)]
    assert len(collected.notes) == 1
    assert "lost" in collected.notes[0]


@pytest.mark.extended
def test_a_trainer_that_keeps_the_file_open_is_read_meanwhile(world: World, tmp_path: Path) -> None:
    record = make_record(world)

    with collecting(tmp_path) as collected:
        mount = collected.collector.prepare(record, MASTER)
        with Path(mount, METRIC_FILE_NAME).open("ab", buffering=0) as file:
            file.write(LINE)
            wait_until(lambda: collected.steps(record) == [1], "the first report is stored")
            file.write(LINE.replace(b'"1"', b'"2"', 1))
            wait_until(lambda: collected.steps(record) == [1, 2], "both reports are stored")
        collected.end(record)

    assert collected.steps(record) == [1, 2]


def _foreign_file(path: Path) -> None:
    path.write_bytes(LINE)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(LINE)


def _link(path: Path) -> None:
    secret = path.parent / "secret"
    secret.write_bytes(LINE)
    path.symlink_to(secret)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _huge_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def put_in_place(path: Path, trick: Callable[[Path], None]) -> None:
    """Replace the file by what ``trick`` makes, although the collector puts it back."""
    other = path.with_name("other")
    trick(other)
    while True:
        path.unlink(missing_ok=True)
        try:
            other.rename(path)
        except NotADirectoryError:
            continue
        return


@pytest.mark.parametrize(
    ("trick", "steps"),
    [(_foreign_file, [1]), (_folder, []), (_link, []), (_pipe, []), (_huge_file, [])],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_trick_with_the_file_stops_the_reading(
    world: World, tmp_path: Path, trick: Callable[[Path], None], steps: list[int]
) -> None:
    record = make_record(world)

    with collecting(tmp_path) as collected:
        path = Path(collected.collector.prepare(record, MASTER), METRIC_FILE_NAME)
        put_in_place(path, trick)
        wait_until(
            lambda: path.is_file() and not path.is_symlink() and path.stat().st_size == 0,
            "an empty file is in its place again",
            ignoring=FileNotFoundError,
        )
        path.write_bytes(LINE.replace(b'"1"', b'"2"', 1))
        collected.end(record)

    assert collected.steps(record) == [*steps, 2]


class Away(MetricReader):
    """Has no agent on any machine."""

    def open(self, stream: StreamName, machine: str = "") -> str:
        raise EngineUnavailable(f"the node agent of machine {machine} does not answer")


class Slow(MetricReader):
    """Has an agent that has not answered yet."""

    def open(self, stream: StreamName, machine: str = "") -> str:
        raise StillStarting(f"the node agent of machine {machine} has not made the folder")


def test_a_trial_waits_for_what_reads_its_metrics_and_another_job_does_not(
    world: World, tmp_path: Path
) -> None:
    trial = make_record(world)
    job, notes = replace(trial, trial=None), list[str]()

    def collector(reading: type[MetricReader]) -> MetricCollector:
        sink = StoredReports(MeasurementStore(open_database("sqlite://")), lambda *_: None)
        reader = reading(tmp_path, sink, lambda: None)
        return MetricCollector(reader, note=lambda _, message: notes.append(message), reads_all=True)

    with pytest.raises(EngineUnavailable, match="machine one does not answer"):
        collector(Away).prepare(trial, MASTER, "one")
    for record in (trial, job):
        with pytest.raises(StillStarting):
            collector(Slow).prepare(record, MASTER, "one")
    assert notes == []
    assert collector(Away).prepare(job, MASTER, "one") == ""
    assert notes == ["The job has no curves: the node agent of machine one does not answer"]


def test_what_reports_nothing_is_drained_at_once(world: World, tmp_path: Path) -> None:
    record = make_record(world)
    job = replace(record, trial=None)
    collected = Collected(tmp_path)
    worker = ReplicaId(role=ReplicaRole.WORKER)

    collected.collector.follow(job, observed(job, ReplicaState.RUNNING))

    assert collected.collector.drained == {"container"}
    assert collected.collector.prepare(job, MASTER) == ""
    collected.collector.forget(present=set())
    assert collected.collector.drained == frozenset()
    with collecting(tmp_path) as trials:
        trials.collector.follow(record, replace(observed(record, ReplicaState.RUNNING), replica=worker))
        assert trials.collector.drained == {"container"}


def test_folders_go_with_their_jobs(world: World, tmp_path: Path) -> None:
    record = make_record(world)
    (tmp_path / "metrics" / "left-over" / "mount").mkdir(parents=True)

    with collecting(tmp_path) as collected:
        assert not (collected.root / "left-over").exists()
        assert Path(collected.collector.prepare(record, MASTER)).stat().st_mode & 0o777 == 0o777
        collected.end(record)
        collected.collector.remove(record.uid)

        assert list(collected.root.iterdir()) == []
        assert collected.collector.drained == frozenset()


def dig(folder: Path, levels: int) -> None:
    """Make a folder that is deeper than a path can be long, as a trainer could."""
    folder.mkdir(parents=True, exist_ok=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """The test's folder, which is removed also if it is too deep for pytest."""
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path], check=True)


def test_a_folder_of_any_depth_goes_with_its_job_and_stops_no_start(world: World, deep: Path) -> None:
    record = make_record(world)
    dig(deep / "metrics" / "left-over" / "mount", 1200)

    with collecting(deep) as collected:
        assert not (collected.root / "left-over").exists()
        dig(Path(collected.collector.prepare(record, MASTER)), 1200)
        collected.end(record)
        collected.collector.remove(record.uid)

        assert list(collected.root.iterdir()) == []


def test_a_deep_folder_in_the_place_of_the_file_stops_nothing(world: World, deep: Path) -> None:
    record = make_record(world)

    with collecting(deep) as collected:
        place = Path(collected.collector.prepare(record, MASTER)) / METRIC_FILE_NAME
        dig(deep / "deep", 1200)
        put_in_place(place, (deep / "deep").rename)
        wait_until(place.is_file, "the folder is out of the way")
        place.write_bytes(LINE)
        collected.end(record)

        assert collected.steps(record) == [1]


def test_tuning_is_refused_where_nobody_could_read_the_metrics(world: World) -> None:
    world.add_image()
    world.submit("training")
    world.submit("study", hyperparameters=search())
    training, study = (world.store.get(PROJECT, name).spec for name in ("training", "study"))
    far = DockerEngine("test", "tcp://203.0.113.1:2375")

    check_metrics_can_be_read(study, world.engine)
    check_metrics_can_be_read(training, far)
    with pytest.raises(InvalidJobSpec, match="study: tuning needs the metrics of trials"):
        check_metrics_can_be_read(study, far)
