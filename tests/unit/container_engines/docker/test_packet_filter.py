"""How the rules get to the machine of a played engine, and what happens where they cannot."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import structlog

from container_engines.base import EngineView, ReplicaLaunch
from container_engines.docker.driver import DockerDriver
from container_engines.docker.engine import DockerEngine
from container_engines.egress import Egress, EgressMode, Endpoint, mark_of
from container_engines.labels import SERVICE
from tests.contract.engine_benches import make_launch
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from training_api.errors import EngineBusy, EngineError, EngineUnavailable

IMAGE = "trainer"
MakeEngine = Callable[..., DockerEngine]


@pytest.fixture
def docker() -> Iterator[FakeDocker]:
    with run_fake_docker() as docker:
        docker.images[IMAGE] = Program()
        docker.networks["bridge"] = {"Name": "bridge", "Id": "first start", "Labels": None}
        yield docker


@pytest.fixture
def make_engine(docker: FakeDocker) -> Iterator[MakeEngine]:
    engines = []

    def make(mode: EgressMode = EgressMode.OPEN, *endpoints: str) -> DockerEngine:
        egress = Egress(mode, tuple(map(Endpoint.parse, endpoints)))
        engines.append(DockerEngine("service", docker.url, egress=egress))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def launch() -> ReplicaLaunch:
    return make_launch(IMAGE)


def helpers(docker: FakeDocker) -> list[dict[str, Any]]:
    return [body for body in docker.made if (body.get("Cmd") or [""])[0] == "nft"]


def trainers(docker: FakeDocker) -> list[dict[str, Any]]:
    return [body for body in docker.made if body["Image"] == IMAGE]


def test_the_rules_are_there_before_the_first_network_and_are_made_once(
    docker: FakeDocker, make_engine: MakeEngine
) -> None:
    engine = make_engine()

    engine.start_replica(launch())
    engine.start_replica(launch())

    (helper,) = helpers(docker)
    host = helper["HostConfig"]
    assert (host["NetworkMode"], host["CapAdd"], host["CapDrop"]) == ("host", ["NET_ADMIN"], ["ALL"])
    assert not host.get("Privileged")
    assert all(mount["ReadOnly"] for mount in host["Mounts"])
    assert docker.requests.index("POST containers/create") < docker.requests.index("POST networks/create")
    assert not [name for name in docker.containers if "egress" in name]
    bridges = [
        made["Options"]["com.docker.network.bridge.name"]
        for name, made in docker.networks.items()
        if name != "bridge"
    ]
    assert len(set(bridges)) == 2
    assert all(f'iifname "{bridge[:8]}*"' in helper["Cmd"][1] for bridge in bridges)


def test_the_rules_are_made_again_when_the_engine_was_started_again(
    docker: FakeDocker, make_engine: MakeEngine
) -> None:
    engine = make_engine()
    engine.start_replica(launch())
    docker.networks["bridge"]["Id"] = "second start"

    engine.start_replica(launch())
    engine.confine()

    assert len(helpers(docker)) == 3


def test_what_a_killed_service_left_is_in_nobodys_way(docker: FakeDocker, make_engine: MakeEngine) -> None:
    name = f"ct-egress-{mark_of('service')}"
    with closing(docker.client()) as client:
        client.create_container(IMAGE, ["nft", "of before"], name=name)

    make_engine().confine()

    removed = docker.requests.index(f"DELETE containers/{name}")
    assert removed < docker.requests.index("POST containers/create", removed)
    assert docker.containers == {}


def test_what_a_killed_service_left_bears_its_label_and_is_no_job(
    docker: FakeDocker, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    with monkeypatch.context() as patched:
        patched.setattr(DockerDriver, "remove", lambda *_: None)  # the kill comes before it
        engine.confine()

    (helper,) = helpers(docker)
    assert helper["Labels"] == {SERVICE: "service"}
    assert engine.observe() == EngineView(replicas=(), job_uids=frozenset())


@pytest.mark.parametrize("mode", [EgressMode.INTERNET, EgressMode.NONE])
def test_no_replica_starts_where_the_setting_cannot_be_enforced(
    docker: FakeDocker, make_engine: MakeEngine, mode: EgressMode
) -> None:
    docker.imported = Program(exit_code=1, lines=((2, "Error: Could not process rule"),))
    engine = make_engine(mode)

    for _ in range(2):
        with pytest.raises(
            EngineError, match=r"cannot be enforced.*Could not process rule.*nftables"
        ) as error:
            engine.start_replica(launch())

    assert not isinstance(error.value, EngineBusy | EngineUnavailable)
    assert f"TRAINING_EGRESS={mode}" in str(error.value)
    assert trainers(docker) == []


def test_a_machine_without_nft_is_named_and_open_goes_on(docker: FakeDocker, make_engine: MakeEngine) -> None:
    docker.refusals["POST containers/.*/start"] = (
        400,
        'exec: "nft": executable file not found in $PATH',
    )
    engine = make_engine()

    with structlog.testing.capture_logs() as logs:
        engine.confine()

    (line,) = logs
    assert line["log_level"] == "warning"
    assert "link-local" in line["event"]
    assert "executable file not found" in line["reason"]
    docker.refusals.clear()
    engine.start_replica(launch())
    assert len(trainers(docker)) == 1


def test_a_busy_engine_is_tried_again_before_a_job_starts_without_the_rules(
    docker: FakeDocker, make_engine: MakeEngine
) -> None:
    docker.refusals["POST images/create"] = (500, "not now")
    engine = make_engine()

    for _ in range(3):
        with pytest.raises(EngineBusy, match="not now"):
            engine.start_replica(launch())
    assert trainers(docker) == []
    with structlog.testing.capture_logs() as logs:
        engine.start_replica(launch())  # the mode is open: an engine that is always busy holds no job up
    assert [line["log_level"] for line in logs] == ["warning"]
    docker.refusals.clear()
    engine.start_replica(launch())

    assert len(helpers(docker)) == 1


def test_a_busy_engine_starts_nothing_where_the_rules_are_wanted(
    docker: FakeDocker, make_engine: MakeEngine
) -> None:
    docker.refusals["POST images/create"] = (500, "not now")
    engine = make_engine(EgressMode.NONE)

    for _ in range(6):
        with pytest.raises(EngineBusy):
            engine.start_replica(launch())
    with pytest.raises(EngineBusy, match="TRAINING_EGRESS=none cannot be enforced"):
        engine.start_replica(launch())

    assert trainers(docker) == []


def test_without_an_answer_nothing_starts_in_any_mode(docker: FakeDocker, make_engine: MakeEngine) -> None:
    docker.cut_off.add("POST images/create")
    engine = make_engine()

    with pytest.raises(EngineUnavailable):
        engine.start_replica(launch())

    assert trainers(docker) == []


def test_endpoints_are_looked_up_and_containers_of_none_get_their_addresses(
    docker: FakeDocker, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(
        EgressMode.NONE, "mlflow.lan:5000", "gone.lan:1", "host.docker.internal:9023", "10.1.0.0/16:443"
    )
    engine.ping()  # docker-py looks up names, too

    def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if host == "gone.lan":
            raise socket.gaierror("unknown")
        return [(0, 0, 0, "", (address, port)) for address in ("10.9.9.9", "fd00::9")]

    module = "container_engines.endpoint_addresses.socket.getaddrinfo"
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as logs:
        patched.setattr(module, look_up)
        engine.confine()
        patched.setattr(module, lambda host, *_, **options: look_up("gone.lan", 0))
        engine.confine()  # the name server is down: what was known stays
    engine.start_replica(launch())

    rules = helpers(docker)[-1]["Cmd"][1]
    for destination in (
        "ip daddr 10.9.9.9/32",
        "ip6 daddr fd00::9/128",
        "fib daddr type local",
        "ip daddr 10.1.0.0/16",
    ):
        assert f"{destination} meta l4proto {{ tcp, udp }} th dport" in rules
    assert [(line["host"], line["effect"]) for line in logs] == [
        ("gone.lan", "jobs do not reach it"),
        ("mlflow.lan", "its address of before stays open"),
        ("gone.lan", "jobs do not reach it"),
    ]
    host = trainers(docker)[0]["HostConfig"]
    assert sorted(host["ExtraHosts"]) == ["host.docker.internal:host-gateway", "mlflow.lan:10.9.9.9"]
    assert host["Dns"] == ["192.0.2.1"]


def test_without_a_setting_nothing_is_closed(docker: FakeDocker) -> None:
    with closing(DockerEngine("service", docker.url)) as engine:
        engine.confine()
        engine.start_replica(launch())

    assert helpers(docker) == []
    assert trainers(docker)[0]["HostConfig"].get("Dns") is None
