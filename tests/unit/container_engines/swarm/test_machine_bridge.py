"""How the way out of replicas gets to the machine of a played engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from container_engines.docker.client import DockerConnection
from container_engines.egress import Egress, EgressMode
from container_engines.swarm.machine_bridge import MachineBridge
from container_engines.swarm.way_out import config_name, interface_of
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from tests.support.fakes.virtual_time import VirtualClock
from training_api.errors import EngineError

EGRESS = Egress(EgressMode.INTERNET)


@pytest.fixture
def docker() -> Iterator[FakeDocker]:
    with run_fake_docker() as docker:
        docker.networks["bridge"] = {"Name": "bridge", "Id": "first start", "Labels": None}
        yield docker


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def bridge(docker: FakeDocker, clock: VirtualClock) -> Iterator[MachineBridge]:
    with closing(DockerConnection(docker.url)) as connection:
        yield MachineBridge(connection, "service", EGRESS, lambda: clock.seconds)


def programs(docker: FakeDocker) -> list[str]:
    return [body["Cmd"][0] for body in docker.made]


def test_the_rules_come_before_the_configuration_without_which_no_replica_starts(
    docker: FakeDocker, bridge: MachineBridge
) -> None:
    assert bridge.keep() == EGRESS.digest

    assert programs(docker) == ["ip", "nft"]
    interface = interface_of("service")
    assert interface in docker.made[0]["Cmd"]
    assert f'iifname "{interface[:8]}*"' in docker.made[1]["Cmd"][1]
    config: dict[str, Any] = docker.networks[config_name("service")]
    assert config["ConfigOnly"]
    assert config["Options"] == {
        "com.docker.network.bridge.name": interface,
        "com.docker.network.bridge.enable_icc": "false",
    }
    runs = [n for n, asked in enumerate(docker.requests) if asked == "POST containers/create"]
    assert runs[-1] < docker.requests.index("POST networks/create")


def test_what_is_there_is_put_in_place_again_after_a_start_and_after_an_hour(
    docker: FakeDocker, bridge: MachineBridge, clock: VirtualClock
) -> None:
    bridge.keep()
    bridge.keep()
    assert programs(docker) == ["ip", "nft"]

    clock.seconds += 3601
    bridge.keep()
    assert programs(docker) == ["ip", "nft", "nft"]

    docker.networks["bridge"]["Id"] = "second start"
    bridge.keep()
    assert programs(docker) == ["ip", "nft", "nft", "ip", "nft"]
    assert docker.requests.count("POST networks/create") == 1


def test_an_interface_that_is_there_is_kept(docker: FakeDocker, bridge: MachineBridge) -> None:
    docker.imported = Program(lines=((2, "RTNETLINK answers: File exists"),), exit_code=2)

    # The played nft ends in the same way.
    with pytest.raises(EngineError, match="nft ended with 2"):
        bridge.keep()

    assert programs(docker) == ["ip", "nft"]


def test_without_the_rules_there_is_no_configuration(docker: FakeDocker, bridge: MachineBridge) -> None:
    docker.imported = Program(lines=((2, "ip: not found"),), exit_code=127)

    with pytest.raises(EngineError, match="ip ended with 127: ip: not found"):
        bridge.keep()

    assert config_name("service") not in docker.networks
