"""From a container's address to who its job is."""

from __future__ import annotations

import socket

import httpx
import pytest
from fastapi import FastAPI

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_service.metadata.identities import JobIdentities
from training_service.metadata.server import MetadataServer
from training_service.model.projects import project_config
from training_service.store.database import open_database

ADDRESS = "10.0.0.1"


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

    first, second = (JobIdentities(world.engine, world.store).find(f"10.0.0.{place}") for place in (1, 2))

    assert first is not None
    assert second is not None
    assert (first.job_id, first.project) == ("first", PROJECT)
    assert first.email == project_config(PROJECT).service_account
    assert (second.email, second.region) == (account, "europe-west4")


def test_an_unknown_address_an_ended_job_and_a_silent_engine_are_nobody(world: World) -> None:
    world.submit()
    world.settle()

    assert find(world) is not None
    assert find(world, "10.0.0.9") is None
    world.engine.available = False
    assert find(world) is None
    world.engine.available = True
    world.engine.advance(61)
    assert find(world) is None


def test_the_server_listens_where_it_is_told_and_says_where_it_cannot() -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    server = MetadataServer(app, "127.0.0.1", 0)
    server.start()
    try:
        assert httpx.get(f"http://127.0.0.1:{server.port}/", trust_env=False).json() == "here"
    finally:
        server.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            MetadataServer(app, "127.0.0.1", port).start()
