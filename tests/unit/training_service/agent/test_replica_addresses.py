"""Whose an address is, at the seam of the engine's answers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from training_service.agent.replica_addresses import ReplicaAddresses
from training_service.metadata.callers import CallerUnknown

SERVICE = {"container-training.service": "s"}


class Engine(httpx.BaseTransport):
    """Answers as an engine with these containers in the bridge: id -> address and labels."""

    def __init__(self) -> None:
        self.containers: dict[str, tuple[str, dict[str, str]]] = {
            "ours": ("172.18.0.3", SERVICE),
            "other": ("172.18.0.4", {"container-training.service": "t"}),
            "plain": ("172.18.0.5", {}),
        }
        self.asked: list[str] = []
        self.status = 200

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v1.41")
        self.asked.append(path)
        answer: Any = {"Containers": self._bridge()}
        if path.startswith("/containers/"):
            name = path.split("/")[2]
            if name not in self.containers:
                return httpx.Response(404, json={"message": "No such container"})
            answer = {"Config": {"Labels": self.containers[name][1] or None}}
        else:
            assert path == "/networks/docker_gwbridge"
        return httpx.Response(self.status, json=answer)

    def _bridge(self) -> dict[str, Any]:
        found = {key: {"IPv4Address": f"{where}/16"} for key, (where, _) in self.containers.items()}
        return {**found, "ingress-sbox": {"IPv4Address": "172.18.0.2/16"}}


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def addresses(engine: Engine) -> ReplicaAddresses:
    return ReplicaAddresses("/socket", "container-training.service=s", engine)


def test_an_address_is_that_of_a_container_of_the_service_or_of_none(
    engine: Engine, addresses: ReplicaAddresses
) -> None:
    assert addresses.container_at("172.18.0.3") == "ours"
    for address in ("172.18.0.2", "172.18.0.4", "172.18.0.5", "172.18.0.9", "172.17.0.1", ""):
        assert addresses.container_at(address) is None


def test_an_address_that_is_used_again_is_its_new_containers(
    engine: Engine, addresses: ReplicaAddresses
) -> None:
    assert addresses.container_at("172.18.0.3") == "ours"
    engine.containers = {"plain": ("172.18.0.3", {}), "next": ("172.18.0.4", SERVICE)}

    assert addresses.container_at("172.18.0.3") is None
    assert addresses.container_at("172.18.0.4") == "next"
    assert addresses.of_service == {"next"}


def test_an_address_that_two_have_is_nobodys(engine: Engine, addresses: ReplicaAddresses) -> None:
    engine.containers["double"] = ("172.18.0.3", SERVICE)

    assert addresses.container_at("172.18.0.3") is None


def test_a_question_costs_one_request_and_the_first_one_two(
    engine: Engine, addresses: ReplicaAddresses
) -> None:
    for _ in range(3):
        addresses.container_at("172.18.0.3")

    assert (
        engine.asked
        == ["/networks/docker_gwbridge", "/containers/ours/json"] + ["/networks/docker_gwbridge"] * 2
    )


def test_an_engine_that_does_not_answer_says_nothing_of_anybody(
    engine: Engine, addresses: ReplicaAddresses
) -> None:
    engine.status = 500

    with pytest.raises(CallerUnknown, match="ask again"):
        addresses.container_at("172.18.0.3")
    engine.status = 200
    assert addresses.container_at("172.18.0.3") == "ours"
