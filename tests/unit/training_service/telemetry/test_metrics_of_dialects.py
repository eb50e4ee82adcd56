"""Jobs of both dialects are counted and timed alike, so that one rule alerts on either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from tests.support.fakes.studies import Tuning, search
from tests.support.fakes.vertex_tuning_jobs import make_tuning_job
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, ScaleTier, TrainingInput
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.dialects.vertex_v1.tuning.reader import tuning_job_spec
from training_api.fleet.wire import FleetResponse
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import JobState
from training_service.store.database import open_database
from training_service.store.jobs.success_store import SuccessStore
from training_service.telemetry.gauges import ServiceGauges
from training_service.use_cases.jobs import CANCELLED_BY_USER

LOCATION, ID, MACHINE = "us-central1", "job", "n1-standard-4"
LABELS = {"airflow-dag": "nightly", "model": "digits"}
#: What both kinds of job have: the number of workers, and how many trials they try.
Submit = Callable[[World, int, int], None]
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def submit_of_ml_v1(world: World, workers: int, trials: int) -> None:
    config = ReplicaConfig(image_uri=IMAGE)
    training = TrainingInput(
        scale_tier=ScaleTier.CUSTOM,
        master_type=MACHINE,
        master_config=config,
        **({"worker_type": MACHINE, "worker_count": workers, "worker_config": config} if workers else {}),
        hyperparameters=search(max_trials=trials) if trials else None,
    )
    world.jobs.create(PROJECT, Job(job_id=ID, labels=LABELS, training_input=training))


def submit_of_vertex(world: World, workers: int, trials: int) -> None:
    pools = [make_pool(each, MACHINE, imageUri=IMAGE) for each in (1, workers) if each]
    if trials:
        job = {**make_tuning_job(*pools, maxTrialCount=trials), "labels": LABELS}
        world.store.insert(tuning_job_spec(PROJECT, LOCATION, ID, job), job)
    else:
        job = make_custom_job(*pools, labels=LABELS)
        world.store.insert(custom_job_spec(PROJECT, LOCATION, ID, job), job)


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[[Submit], World]]:
    """Return a function that starts a separate service for each dialect."""
    databases = []

    def make(submit: Submit) -> World:
        databases.append(open_database(f"sqlite:///{tmp_path / submit.__name__}.db"))
        return World(databases[-1], max_replicas=8)

    yield make
    for database in databases:
        database.dispose()


def samples(world: World) -> Samples:
    """Return what a scrape finds of jobs: without the process, and when each series was made."""
    world.metrics.watch_jobs(world.store.count_by_state)
    successes = SuccessStore(world.database).newest
    world.metrics.registry.register(ServiceGauges(successes, FleetResponse, {}))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for metric in world.metrics.registry.collect()
        for sample in metric.samples
        if not sample.name.startswith("process_")
        and not sample.name.endswith("_created")
        # How long the loop's own work took is real time.
        and not sample.name.startswith("training_loop_step")
        # When the last one succeeded is compared by the series that there are.
        and not sample.name.endswith("_timestamp_seconds")
    } | {
        ("last success of", frozenset({("dag", dag), ("model", model)})): 1.0 for dag, model, _ in successes()
    }


def run_until_ended(world: World) -> None:
    Tuning(world).run()


def fail(world: World) -> None:
    world.settle()
    world.engine.end(world.store.get(PROJECT, ID).uid, ReplicaId(role=ReplicaRole.MASTER), 3)
    run_until_ended(world)


def lose_a_worker(world: World) -> None:
    world.settle()
    world.engine.lose(world.store.get(PROJECT, ID).uid, ReplicaId(role=ReplicaRole.WORKER))
    run_until_ended(world)


def cancel(world: World) -> None:
    world.settle()
    world.engine.advance(2)
    record = world.store.get(PROJECT, ID)
    world.store.advance(
        record, JobState.CANCELLING, at=world.engine.now, message="", reason=CANCELLED_BY_USER
    )
    run_until_ended(world)


def wait_in_the_queue(world: World) -> None:
    assert world.store.get(PROJECT, ID).state is JobState.QUEUED


@pytest.mark.parametrize(
    ("workers", "trials", "act", "counted"),
    [
        (0, 0, run_until_ended, {"kind": "job", "state": "SUCCEEDED"}),
        (1, 0, fail, {"kind": "job", "cause": "PROGRAM_ERROR"}),
        (1, 0, lose_a_worker, {"role": "worker"}),
        (0, 0, cancel, {"kind": "job", "cause": "CANCELLED"}),
        (0, 2, run_until_ended, {"kind": "trial", "state": "SUCCEEDED"}),
        (0, 0, wait_in_the_queue, {"state": "QUEUED"}),
    ],
    ids=["success", "failure", "restart", "cancellation", "search", "queue"],
)
def test_a_job_of_vertex_ai_leaves_the_metrics_of_one_of_ml_v1(
    make_world: Callable[[Submit], World],
    workers: int,
    trials: int,
    act: Callable[[World], None],
    counted: dict[str, str],
) -> None:
    found = []
    for submit in (submit_of_ml_v1, submit_of_vertex):
        world = make_world(submit)
        world.add_image(Behaviour(run_seconds=10))
        submit(world, workers, trials)
        act(world)
        found.append(samples(world))
    of_ml_v1, of_vertex = found

    assert of_vertex == of_ml_v1
    labels = frozenset(counted.items())
    assert max(value for (_, found), value in of_vertex.items() if found == labels) >= 1


def test_a_machine_that_vertex_ai_alone_has_is_counted_by_its_name(world: World) -> None:
    world.add_image(Behaviour(run_seconds=4))
    job = make_custom_job(make_pool(1, "e2-standard-4", imageUri=IMAGE), labels=LABELS)
    world.store.insert(custom_job_spec(PROJECT, LOCATION, ID, job), job)
    run_until_ended(world)

    assert (
        samples(world)[
            "training_machine_seconds_total",
            frozenset({("machine_type", "e2-standard-4"), ("dag", "nightly")}),
        ]
        == 4
    )
