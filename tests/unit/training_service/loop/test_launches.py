"""What a container is given: its secrets as they are when it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.causes import Cause
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.dialects.registry import DIALECTS
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import JobState
from training_service.access.secret_store import SecretStore
from training_service.loop.launches import own_variables
from training_service.store.database import open_database

MASTER = ReplicaId(role=ReplicaRole.MASTER)


@pytest.fixture
def secrets(tmp_path: Path) -> SecretStore:
    store = SecretStore(tmp_path / "secrets")
    store.put(PROJECT, "key", b"first")
    return store


@pytest.fixture
def world(secrets: SecretStore) -> World:
    world = World(open_database("sqlite://"), secrets=secrets)
    world.add_image(Behaviour(run_seconds=1000))
    return world


def submit(world: World, **training: object) -> None:
    config = ReplicaConfig(image_uri=IMAGE)
    fields = {"scale_tier": "CUSTOM", "master_type": "n1-standard-4", "master_config": config, **training}
    labels = {"secret-key": "api_key"}
    world.jobs.create(PROJECT, Job(job_id="job", labels=labels, training_input=TrainingInput(**fields)))


def given(world: World) -> list[str]:
    return [launch.secrets.environment["API_KEY"] for launch in world.engine.launches()]


def test_every_replica_gets_the_secrets_of_its_job(world: World) -> None:
    submit(world, worker_type="n1-standard-4", worker_count=1)

    world.settle()

    assert given(world) == ["first", "first"]
    assert not any("first" in repr(launch) for launch in world.engine.launches())


def test_a_replica_that_is_started_again_gets_the_value_of_then(world: World, secrets: SecretStore) -> None:
    submit(world)
    world.settle()
    secrets.put(PROJECT, "key", b"second")

    world.engine.end(world.store.list_active()[0].uid, MASTER, 143)
    world.settle()

    assert "second" in given(world)
    assert world.state() is JobState.RUNNING


def test_a_secret_that_is_gone_at_the_start_fails_the_job(world: World, secrets: SecretStore) -> None:
    submit(world)
    secrets.remove(PROJECT, "key")

    world.settle()

    record = world.store.get(PROJECT, "job")
    assert (record.state, record.reason and record.reason.cause) == (JobState.FAILED, Cause.SECRET)
    assert "has no secret 'key'" in (world.get().error_message or "")


def test_a_label_that_is_written_later_names_no_secret(world: World, secrets: SecretStore) -> None:
    submit(world)
    record = world.store.get(PROJECT, "job")
    assert world.store.set_labels(record, {"secret-other": ""})

    world.settle()

    (launch,) = world.engine.launches()
    assert (dict(launch.secrets.files), dict(launch.secrets.environment)) == ({}, {"API_KEY": "first"})


def test_what_the_service_sets_is_known_as_its_own(world: World) -> None:
    submit(world)
    world.settle()

    (launch,) = world.engine.launches()

    assert set(launch.environment) - {"STORAGE_EMULATOR_HOST"} <= own_variables(DIALECTS)
