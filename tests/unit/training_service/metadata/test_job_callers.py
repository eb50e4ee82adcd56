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
from training_api.job.dialect import Dialects
from training_service.access.identity import IdentityTokens
from training_service.access.signing_key import SigningKey
from training_service.metadata.job_callers import JobCallers
from training_service.metadata.tree import JobIdentity
from training_service.store.database import open_database

ADDRESS = "127.1.0.1"
TOKENS = IdentityTokens(SigningKey.generate())


@pytest.fixture
def world() -> World:
    world = World(open_database("sqlite://"))
    world.add_image(Behaviour(run_seconds=60))
    return world


def callers(world: World, dialects: Dialects = DIALECTS) -> JobCallers:
    return JobCallers(world.engine, world.store, dialects, TOKENS)


def find(world: World, address: str = ADDRESS) -> JobIdentity | None:
    caller = callers(world).at(address)
    return caller.identity if caller else None


def test_a_running_job_is_its_account_or_the_service_agent(world: World) -> None:
    account = "trainer@project.iam.gserviceaccount.com"
    world.submit("first")
    world.submit("second", service_account=account, region="europe-west4")
    world.settle()

    first, second = (find(world, f"127.1.0.{place}") for place in (1, 2))

    assert first is not None
    assert second is not None
    assert (first.job_id, first.project) == ("first", PROJECT)
    assert first.email == ML_AGENT.email(PROJECT)
    assert (second.email, second.region) == (account, "europe-west4")


def test_a_job_of_each_dialect_is_its_agent_and_one_of_none_is_nobody(world: World) -> None:
    job = make_custom_job(make_pool(imageUri=IMAGE))
    world.store.insert(custom_job_spec(PROJECT, "us-central1", "123", job), job)
    world.settle()

    found = find(world)

    assert found is not None
    assert found.email == VERTEX_AGENT.email(PROJECT)
    assert callers(world, {}).at(ADDRESS) is None


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


def test_a_container_of_a_machine_is_its_job_as_the_engine_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit("first")
    world.settle()
    (record,) = world.store.list_active()
    placed = {("n1", "container"): record.uid, ("n1", "stale"): "ffffffffffff"}
    monkeypatch.setattr(world.engine, "job_on", lambda *place: placed.get(place))

    found = callers(world).on("n1", "container")

    assert found is not None
    assert found.identity.job_id == "first"
    for place in [("n2", "container"), ("n1", "stale")]:
        assert callers(world).on(*place) is None
    world.engine.advance(61)
    world.settle()
    assert callers(world).on("n1", "container") is None
