"""Connections to an engine over a network that leaves some of them dead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from container_engines.docker import client
from container_engines.docker.engine import DockerEngine
from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.errors import EngineUnavailable

IMAGE = "registry.test/project/trainer:1"
CONNECTIONS = 4


@pytest.fixture
def fake() -> Iterator[FakeDocker]:
    with run_fake_docker() as fake:
        fake.images[IMAGE] = Program(lines=((1, "one"), (2, "two")), exit_code=0)
        yield fake


@pytest.fixture
def network(fake: FakeDocker) -> Iterator[FaultyProxy]:
    host, port = fake.url.removeprefix("tcp://").split(":")
    with FaultyProxy((host, int(port))) as network:
        yield network


@pytest.fixture
def engine(network: FaultyProxy) -> Iterator[DockerEngine]:
    engine = DockerEngine("service", f"tcp://127.0.0.1:{network.port}")
    yield engine
    engine.close()


def open_connections(engine: DockerEngine, network: FaultyProxy) -> None:
    """Have the engine's client keep several open connections."""

    def are_open() -> bool:
        ask_at_once(engine)
        return network.connections >= 2

    wait_until(are_open, "several connections are open")


def ask_at_once(engine: DockerEngine) -> None:
    """Make several requests, on a connection each if they meet; raise what one raises."""
    together = threading.Barrier(CONNECTIONS)

    def ask(_: int) -> None:
        together.wait()
        engine.ping()

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(ask, range(CONNECTIONS)))


@pytest.mark.parametrize("follow", [False, True])
def test_a_log_is_read_past_connections_that_have_died(
    fake: FakeDocker, network: FaultyProxy, engine: DockerEngine, follow: bool
) -> None:
    api = fake.client()
    container = api.create_container(IMAGE)["Id"]
    api.start(container)
    api.close()
    open_connections(engine, network)
    network.suffer(Fault.HALF_OPEN)
    network.heal()  # new connections work; of the old ones none is ever answered
    begun = time.monotonic()

    lines = [line.text for line in engine.read_logs(container, 0, follow=follow)]

    assert lines == ["one", "two"]
    # The shortest timeout of the client is 30 s.
    assert time.monotonic() - begun < 29


def test_of_the_connections_that_have_died_one_costs_a_timeout(
    network: FaultyProxy, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_TIMEOUT_SECONDS", scaled(2))
    open_connections(engine, network)
    network.suffer(Fault.HALF_OPEN)
    network.heal()  # new connections work; of the old ones none is ever answered

    with pytest.raises(EngineUnavailable):
        engine.ping()

    ask_at_once(engine)
