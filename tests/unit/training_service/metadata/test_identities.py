"""From a container's address to who its job is."""

from __future__ import annotations

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_service.metadata.identities import JobIdentities
from training_service.model.projects import service_agent
from training_service.store.database import open_database

ADDRESS = "127.1.0.1"


@pytest.fixture
def world() -> World:
    world = World(open_database("sqlite://"))
    world.add_image(Behaviour(run_seconds=60))
    return world


def find(world: World, address: str = ADDRESS) -> object:
    return JobIdentities(world.engine, world.store).find(address)


def test_a_running_job_is_its_account_or_the_service_agent(world: World) -> None:
    account = "trainer@project.iam.gserviceaccount.com"
    world.submit("first")
    world.submit("second", service_account=account, region="europe-west4")
    world.settle()

    first, second = (JobIdentities(world.engine, world.store).find(f"127.1.0.{place}") for place in (1, 2))

    assert first is not None
    assert second is not None
    assert (first.job_id, first.project) == ("first", PROJECT)
    assert first.email == service_agent(PROJECT)
    assert (second.email, second.region) == (account, "europe-west4")


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
