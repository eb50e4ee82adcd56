"""From a container's address to who its job is."""

from __future__ import annotations

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.dialects.registry import DIALECTS
from training_api.dialects.vertex_v1.dialect import AGENT as VERTEX_AGENT
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_service.metadata.identities import JobIdentities
from training_service.store.database import open_database

ADDRESS = "127.1.0.1"


@pytest.fixture
def world() -> World:
    world = World(open_database("sqlite://"))
    world.add_image(Behaviour(run_seconds=60))
    return world


def find(world: World, address: str = ADDRESS) -> object:
    return JobIdentities(world.engine, world.store, DIALECTS).find(address)


def test_a_running_job_is_its_account_or_the_service_agent(world: World) -> None:
    account = "trainer@project.iam.gserviceaccount.com"
    world.submit("first")
    world.submit("second", service_account=account, region="europe-west4")
    world.settle()

    first, second = (
        JobIdentities(world.engine, world.store, DIALECTS).find(f"127.1.0.{place}") for place in (1, 2)
    )

    assert first is not None
    assert second is not None
    assert (first.job_id, first.project) == ("first", PROJECT)
    assert first.email == ML_AGENT.email(PROJECT)
    assert (second.email, second.region) == (account, "europe-west4")


def test_a_job_of_each_dialect_is_its_agent_and_one_of_none_is_nobody(world: World) -> None:
    job = make_custom_job(make_pool(imageUri=IMAGE))
    world.store.insert(custom_job_spec(PROJECT, "us-central1", "123", job), job)
    world.settle()

    found = JobIdentities(world.engine, world.store, DIALECTS).find(ADDRESS)

    assert found is not None
    assert found.email == VERTEX_AGENT.email(PROJECT)
    assert JobIdentities(world.engine, world.store, {}).find(ADDRESS) is None


def test_an_unknown_address_an_ended_job_and_a_silent_engine_are_nobody(world: World) -> None:
    world.submit()
    world.settle()

    assert find(world) is not None
    assert find(world, "127.1.0.9") is None
    world.engine.available = False
    assert find(world) is None
    world.engine.available = True
    world.engine.advance(61)
    assert find(world) is None
