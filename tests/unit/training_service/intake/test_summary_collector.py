"""Following a trial's summary files: while it runs, after its end, and over a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from container_engines.base import ObservedReplica
from tests.support.fakes.summary_objects import FakeObjects
from tests.support.fakes.world import PROJECT, World
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.job_spec import JobSpec
from training_api.states import ReplicaState
from training_service.access.bucket_access import BucketRefused
from training_service.intake.summary_collector import SummaryCollector
from training_service.model.records import Trial
from training_service.store.measurement_store import MeasurementStore

TF1 = Path(__file__).parent / "events" / "tf1-0.tfevents"


#: Longer than any test waits.
PATIENCE_SECONDS = 3600.0


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
        self.readable = {"bucket"}
        self.restart(patience_seconds)

    def restart(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.collector = SummaryCollector(
            self.objects,
            self.store,
            lambda: None,
            note=lambda _, message: self.notes.append(message),
            check_bucket=self.check_bucket,
            poll_seconds=0.02,
            patience_seconds=patience_seconds,
        )
        self.collector.start()

    def check_bucket(self, spec: JobSpec, bucket: str) -> None:
        if bucket not in self.readable:
            raise BucketRefused(f"bucket {bucket!r} is not one of project {spec.project!r}")

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
        return [one.report.step for one in self.store.newer(self.record.uid, "accuracy", 0, 1000)]


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


def test_a_bucket_that_the_job_may_not_read_is_told_once_and_not_read(world: World) -> None:
    following = Following(world, job_dir="gs://bucket/jobs/1")
    following.objects.put("jobs/1/events.out.tfevents.1.host", TF1.read_bytes())
    following.readable = set()

    following.see(ReplicaState.RUNNING)
    wait_until(lambda: following.notes, "the refusal is told")
    following.end()

    assert following.notes == [
        f"The summary files of the trial are not read: bucket 'bucket' is not one of project {PROJECT!r}"
    ]
    assert following.steps() == []
    assert not following.objects.looked.is_set()


def test_a_trial_without_a_folder_and_a_worker_are_not_waited_for(world: World) -> None:
    following = Following(world, job_dir="gs://bucket/jobs/1")
    following.record = replace(following.record, spec=replace(following.record.spec, output_dir=""))

    following.see(ReplicaState.RUNNING)

    assert following.collector.drained == {"container"}
    following.collector.forget(present=set())
    assert following.collector.drained == frozenset()
    following.collector.stop()
