"""The agents' service: its token is nowhere to be seen, and a change of it is noticed."""

from __future__ import annotations

import json
from dataclasses import replace

from container_engines.swarm.agent import AGENT_SPEC, AgentLaunch, agent_secret_name, agent_service_spec

AGENT = AgentLaunch(image="image:1", url="http://service:8470", token="secret-token", folder="/folder")


def test_no_part_of_the_service_shows_the_token() -> None:
    assert "secret-token" not in json.dumps(agent_service_spec("service", AGENT, "id"))
    assert "secret-token" not in repr(AGENT)


def test_each_machine_has_one_with_little_rights_and_one_folder() -> None:
    spec = agent_service_spec("service", AGENT, "id")
    container = spec["TaskTemplate"]["ContainerSpec"]

    assert spec["Mode"] == {"Global": {}}
    assert spec["TaskTemplate"]["RestartPolicy"]["Condition"] == "any"
    assert container["CapabilityDrop"] == ["ALL"]
    assert set(container["CapabilityAdd"]) == {"CAP_DAC_OVERRIDE", "CAP_FOWNER"}
    assert container["ReadOnly"]
    assert [mount["Source"] for mount in container["Mounts"]] == ["/folder"]
    assert AGENT.metric_folder("service", "node") == "/folder/service/node"
    assert "TRAINING_AGENT_NODE={{.Node.ID}}" in container["Env"]


def test_another_image_address_or_token_is_another_service() -> None:
    def digest(agent: AgentLaunch) -> str:
        return str(agent_service_spec("service", agent, "id")["Labels"][AGENT_SPEC])

    changed = [
        replace(AGENT, image="image:2"),
        replace(AGENT, url="http://other:8470"),
        replace(AGENT, token="other"),
        replace(AGENT, folder="/other"),
    ]

    assert digest(AGENT) == digest(replace(AGENT))
    assert len({digest(agent) for agent in [AGENT, *changed]}) == 5
    assert agent_secret_name("service", "one") != agent_secret_name("service", "two")
    assert len(agent_secret_name("s" * 60, "token")) <= 64
