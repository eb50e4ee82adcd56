"""Connections to an engine over a network that leaves some of them dead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from container_engines.docker.engine import DockerEngine
from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from tests.support.waiting import wait_until

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
    together = threading.Barrier(CONNECTIONS)

    def ask() -> None:
        together.wait()
        engine.ping()

    def are_open() -> bool:
        threads = [threading.Thread(target=ask) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return network.connections >= 2

    wait_until(are_open, "several connections are open")


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
