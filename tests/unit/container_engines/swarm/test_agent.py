"""The agents' service: its token is nowhere to be seen, and a change of it is noticed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from container_engines.egress import Egress, EgressMode, Endpoint
from container_engines.swarm.agent import (
    AGENT_SPEC,
    AgentLaunch,
    agent_secret_name,
    agent_service_name,
    agent_service_spec,
    is_refused_image,
)

AGENT = AgentLaunch(
    image="image:1", url="http://service:8470", token_of=lambda machine: f"secret-{machine}", folder="/folder"
)
IDS = {"agent-token": "id-of-token", "agent-authority": "id-of-authority"}


def test_no_part_of_the_service_shows_the_token() -> None:
    assert "secret-node" not in json.dumps(agent_service_spec("service", "node", AGENT, IDS))
    assert "secret" not in repr(AGENT)
    assert AGENT.secrets_of("node") == {"agent-token": "secret-node"}


def test_each_machine_has_one_with_little_rights_and_one_folder() -> None:
    spec = agent_service_spec("service", "node", AGENT, IDS)
    container = spec["TaskTemplate"]["ContainerSpec"]

    assert spec["Mode"] == {"Global": {}}
    assert spec["TaskTemplate"]["RestartPolicy"]["Condition"] == "any"
    assert container["CapabilityDrop"] == ["ALL"]
    assert set(container["CapabilityAdd"]) == {"CAP_DAC_OVERRIDE", "CAP_FOWNER"}
    assert container["ReadOnly"]
    assert [mount["Source"] for mount in container["Mounts"]] == ["/folder"]
    assert AGENT.metric_folder("service", "node") == "/folder/service/node"
    assert "TRAINING_AGENT_NODE=node" in container["Env"]
    assert spec["TaskTemplate"]["Placement"] == {"Constraints": ["node.id==node"]}


def test_another_image_address_or_token_is_another_service() -> None:
    def digest(agent: AgentLaunch) -> str:
        return str(agent_service_spec("service", "node", agent, IDS)["Labels"][AGENT_SPEC])

    changed = [
        replace(AGENT, image="image:2"),
        replace(AGENT, url="http://other:8470"),
        replace(AGENT, token_of=lambda _: "other"),
        replace(AGENT, folder="/other"),
        replace(AGENT, authority="PEM"),
    ]

    # A login for the image is no part of it.
    assert digest(AGENT) == digest(replace(AGENT, pull_token=lambda: "login"))
    assert len({digest(agent) for agent in [AGENT, *changed]}) == 6
    assert agent_secret_name("service", "one") != agent_secret_name("service", "two")
    assert len(agent_secret_name("s" * 60, "token")) <= 64
    assert agent_service_name("s" * 60, "n" * 25) == f"ct-agent-{'s' * 28}-{'n' * 25}"


def test_an_authority_reaches_the_agent_as_a_file_beside_its_token() -> None:
    def container(agent: AgentLaunch) -> dict[str, object]:
        return dict(agent_service_spec("service", "node", agent, IDS)["TaskTemplate"]["ContainerSpec"])

    one, other = container(AGENT), container(replace(AGENT, authority="PEM"))

    assert "TRAINING_AGENT_AUTHORITY_FILE=" in one["Env"]  # type: ignore[operator]
    assert "TRAINING_AGENT_AUTHORITY_FILE=/run/secrets/agent-authority" in other["Env"]  # type: ignore[operator]
    secrets = [(each["SecretID"], each["File"]["Name"]) for each in other["Secrets"]]  # type: ignore[attr-defined]
    assert secrets == [("id-of-token", "agent-token"), ("id-of-authority", "agent-authority")]
    assert len(one["Secrets"]) == 1  # type: ignore[arg-type]


def test_only_with_the_engines_socket_it_is_in_the_machines_network_for_the_metadata() -> None:
    def network(**changes: object) -> tuple[object, object]:
        template = agent_service_spec("service", "node", replace(AGENT, **changes), IDS)["TaskTemplate"]
        (port,) = [each for each in template["ContainerSpec"]["Env"] if "METADATA_PORT" in each]
        return template.get("Networks"), port.partition("=")[2]

    assert network() == (None, "0")
    assert network(metadata_port=8471) == (None, "0")
    assert network(docker_socket="/socket") == (None, "0")
    assert network(metadata_port=8471, docker_socket="/socket") == ([{"Target": "host"}], "8471")


def task(at: int, state: str, error: str = "", node: str = "n1") -> dict[str, object]:
    status = {"State": state, **({"Err": error} if error else {})}
    return {"CreatedAt": f"2026-01-01T00:00:0{at}Z", "NodeID": node, "Status": status}


REFUSED = "No such image: 10.0.0.5:5000/demo/agent:1"


@pytest.mark.parametrize(
    ("tasks", "is_refused"),
    [
        ([], False),
        ([task(1, "running")], False),
        ([task(1, "rejected", REFUSED)], True),
        # It tries again just now; the one before says what came of it.
        ([task(2, "preparing"), task(1, "rejected", REFUSED)], True),
        ([task(2, "running"), task(1, "rejected", REFUSED)], False),
        ([task(1, "running"), task(2, "rejected", REFUSED)], True),
        ([task(1, "running"), task(1, "rejected", REFUSED, "n2")], True),
        ([task(1, "rejected", "invalid mount config: bind source path does not exist")], False),
        ([task(1, "failed", "task: non-zero exit (1)")], False),
    ],
)
def test_a_machine_that_cannot_pull_is_seen_until_it_could(
    tasks: list[dict[str, object]], is_refused: bool
) -> None:
    assert is_refused_image(tasks) is is_refused


def test_agents_are_told_what_jobs_may_reach() -> None:
    def told(egress: Egress | None) -> list[str]:
        spec = agent_service_spec("service", "node", replace(AGENT, egress=egress), IDS)
        environment = spec["TaskTemplate"]["ContainerSpec"]["Env"]
        return [each for each in environment if each.startswith("TRAINING_AGENT_EGRESS")]

    assert told(None) == []
    assert told(Egress(EgressMode.NONE, (Endpoint("fd00::1", 443),))) == [
        "TRAINING_AGENT_EGRESS=none",
        'TRAINING_AGENT_EGRESS_ALLOW=["[fd00::1]:443"]',
    ]


@pytest.mark.parametrize(("socket", "is_told"), [("/var/run/docker.sock", True), ("", False)])
def test_agents_that_can_are_told_to_count_what_containers_write(socket: str, is_told: bool) -> None:
    def environment(counts: bool) -> list[str]:
        agent = replace(AGENT, docker_socket=socket, counts_disk=counts)
        found: list[str] = agent_service_spec("service", "node", agent, IDS)["TaskTemplate"]["ContainerSpec"][
            "Env"
        ]
        return found

    assert ("TRAINING_AGENT_COUNTS_DISK=1" in environment(True)) is is_told
    assert "TRAINING_AGENT_COUNTS_DISK=1" not in environment(False)
