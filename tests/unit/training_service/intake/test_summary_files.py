"""
TensorFlow's summary files, read as they grow.

The real TensorFlow wrote them (``events/make_events.py``).
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from container_engines.base import ObservedReplica
from tests.support.fakes.world import PROJECT, World
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import ReplicaState
from training_service.intake.summary_collector import SummaryCollector
from training_service.intake.summary_events import EventReader, masked_crc
from training_service.intake.summary_files import StorageUnavailable, StoredFile, SummaryFiles
from training_service.model.records import Trial
from training_service.store.measurement_store import MeasurementStore

EVENTS = Path(__file__).parent / "events"
TF1, TF2 = EVENTS / "tf1-0.tfevents", EVENTS / "tf2-0.tfevents"
#: Longer than any test waits.
PATIENCE_SECONDS = 3600.0


def scalars(path: Path) -> list[tuple[str, int, float]]:
    reader = EventReader()
    reports = reader.feed(path.read_bytes())
    assert reader.damage == ""
    assert all(10**15 < report.reported_us < 10**16 for report in reports)
    return [(report.tag, report.step, report.value) for report in reports]


def test_simple_values_of_tensorflow_1_are_read() -> None:
    found = scalars(TF1)

    assert [(step, value) for tag, step, value in found if tag == "accuracy"] == [
        (step, step / 8) for step in range(1, 6)
    ]
    losses = [value for tag, _, value in found if tag == "loss"]
    assert losses[:4] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert math.isnan(losses[4])
    assert len(found) == 10


def test_scalar_tensors_of_tensorflow_2_are_read_and_nothing_else() -> None:
    assert scalars(TF2) == [
        ("accuracy", 1, 0.125),
        ("accuracy", 2, 0.25),
        ("accuracy", 3, 0.375),
        ("double", 4, 0.1),
    ]


def test_what_keras_writes_is_read() -> None:
    found = [each for path in sorted(EVENTS.glob("keras-*.tfevents")) for each in scalars(path)]

    assert [(tag, step) for tag, step, _ in found if tag == "epoch_loss"] == [
        ("epoch_loss", 0),
        ("epoch_loss", 1),
    ]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_file_is_read_in_pieces_of_any_size(size: int) -> None:
    content, reader = TF1.read_bytes(), EventReader()

    reports = [
        report
        for start in range(0, len(content), size)
        for report in reader.feed(content[start : start + size])
    ]

    assert len(reports) == 10
    assert reader.size == len(content)


def test_what_stands_before_a_damage_is_read() -> None:
    content = bytearray(TF1.read_bytes())
    content[-1] ^= 1  # the checksum of the last record

    reader = EventReader()
    reports = reader.feed(bytes(content))

    assert len(reports) == 8
    assert "checksum" in reader.damage
    assert reader.feed(TF1.read_bytes()) == []


def test_a_record_that_claims_to_be_huge_is_not_waited_for() -> None:
    length = struct.pack("<Q", 1 << 40)
    reader = EventReader()

    reader.feed(length + struct.pack("<I", masked_crc(length)))

    assert str(1 << 40) in reader.damage


class FakeObjects:
    """Objects in memory; each write is a generation."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.generations: dict[str, int] = {}
        self.available = True
        self.read_bytes = 0
        self.looked = threading.Event()

    def put(self, name: str, content: bytes) -> None:
        self.contents[name] = content
        self.generations[name] = self.generations.get(name, 0) + 1

    def list(self, bucket: str, prefix: str) -> Iterator[StoredFile]:
        self.looked.set()
        if not self.available:
            raise StorageUnavailable("the store was switched off")
        for name in sorted(self.contents):
            if f"{bucket}/{name}".startswith(f"bucket/{prefix}"):
                yield StoredFile(name=name, generation=self.generations[name], size=len(self.contents[name]))

    def read(self, bucket: str, file: StoredFile, start: int, size: int) -> bytes | None:
        if self.generations[file.name] != file.generation:
            return None
        piece = self.contents[file.name][start : start + size]
        self.read_bytes += len(piece)
        return piece


def test_a_growing_file_is_read_once() -> None:
    objects, content = FakeObjects(), TF1.read_bytes()
    files = SummaryFiles(objects, "gs://bucket/jobs/1")
    name = "jobs/1/eval/events.out.tfevents.1.host"
    objects.put("jobs/10/events.out.tfevents.1.other-trial", content)
    objects.put("jobs/1/model.txt", content)

    found = []
    for end in (100, 100, 250, len(content)):
        objects.put(name, content[:end])
        found += list(files.look())

    assert [one.sequence for one in found] == list(range(10))
    assert {one.source for one in found} == {"eval/events.out.tfevents.1.host"}
    assert objects.read_bytes == len(content)
    assert list(files.look()) == []


class Following:
    """A collector that follows the master of one job."""

    def __init__(self, world: World, *, job_dir: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        world.add_image()
        world.submit(job_dir=job_dir)
        trial = Trial(study_uid="study", study_sequence=1, number=1, hyperparameters={})
        self.record = replace(world.store.get(PROJECT, "job"), trial=trial)
        self.objects = FakeObjects()
        self.store = MeasurementStore(world.database)
        self.notes: list[str] = []
        self.restart(patience_seconds)

    def restart(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.collector = SummaryCollector(
            self.objects,
            self.store,
            lambda: None,
            note=lambda _, message: self.notes.append(message),
            poll_seconds=0.02,
            patience_seconds=patience_seconds,
        )
        self.collector.start()

    def see(self, state: ReplicaState) -> None:
        code = 0 if state is ReplicaState.EXITED else None
        self.collector.follow(
            self.record,
            ObservedReplica(
                job_uid=self.record.uid,
                replica=ReplicaId(role=ReplicaRole.MASTER),
                container_id="container",
                state=state,
                exit_code=code,
            ),
        )

    def end(self) -> None:
        self.see(ReplicaState.EXITED)
        self.wait_until_drained()
        self.collector.stop()

    def wait_until_drained(self) -> None:
        wait_until(lambda: self.collector.drained == {"container"}, "the container is drained")

    def steps(self) -> list[int]:
        return [one.report.step for one in self.store.of(self.record.uid, "accuracy")]


def test_summaries_are_stored_while_the_trial_runs_and_after_its_end(world: World) -> None:
    following = Following(world, job_dir="gs://bucket/jobs/1")
    content, name = TF1.read_bytes(), "jobs/1/events.out.tfevents.1.host"
    following.objects.put(name, content[: len(content) // 2])

    following.see(ReplicaState.RUNNING)
    wait_until(following.steps, "the first summaries are stored")
    assert following.collector.drained == frozenset()
    following.objects.put(name, content)
    following.end()

    assert following.steps() == [1, 2, 3, 4, 5]


def test_a_new_service_stores_nothing_twice(world: World) -> None:
    following = Following(world, job_dir="gs://bucket/jobs/1")
    following.objects.put("jobs/1/events.out.tfevents.1.host", TF1.read_bytes())
    following.end()

    following.restart()
    following.end()

    assert following.steps() == [1, 2, 3, 4, 5]


def test_a_store_that_comes_back_is_read(world: World) -> None:
    following = Following(world, job_dir="gs://bucket/jobs/1")
    following.objects.put("jobs/1/events.out.tfevents.1.host", TF1.read_bytes())
    following.objects.available = False

    following.see(ReplicaState.EXITED)
    assert following.objects.looked.wait(scaled(60))
    assert following.collector.drained == frozenset()
    following.objects.available = True
    following.end()

    assert following.steps() == [1, 2, 3, 4, 5]


def test_a_store_that_stays_away_is_told_and_not_waited_for(world: World) -> None:
    following = Following(world, job_dir="gs://bucket/jobs/1", patience_seconds=0.05)
    following.objects.available = False

    following.end()

    assert following.notes == ["The summary files of the trial could not be read: the store was switched off"]


def test_a_trial_without_a_folder_and_a_worker_are_not_waited_for(world: World) -> None:
    following = Following(world, job_dir="gs://bucket/jobs/1")
    training = following.record.spec.training_input.model_copy(update={"job_dir": None})
    following.record = replace(following.record, spec=replace(following.record.spec, training_input=training))

    following.see(ReplicaState.RUNNING)

    assert following.collector.drained == {"container"}
    following.collector.forget(present=set())
    assert following.collector.drained == frozenset()
    following.collector.stop()
