"""
The agent of a machine, as a service of the swarm that runs there alone. Pure.

It has least privilege: no capability but to read, and to remove, what trainers have written; one folder of
its machine; a root that cannot be written; its token in a secret of the swarm, which no inspection shows.
Source of the fields: docs.docker.com/reference/api/engine, "ServiceCreate".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from container_engines.confinement import MACHINE_NAME
from container_engines.docker.log_files import log_files
from container_engines.egress import Egress
from container_engines.labels import SERVICE

#: Marks an agent's service and its secret with the training service that they are of.
AGENT_OF = "container-training.agent-of"
#: The digest of a service's specification; another one means that it is to be updated.
AGENT_SPEC = "container-training.agent-spec"
#: Where the agent has the machine's folder, and the engine's socket.
_FOLDER, _SOCKET = "/spool", "/run/docker.sock"
#: Its secrets: what it shows, and by whom it knows the service.
_TOKEN, _AUTHORITY = "agent-token", "agent-authority"
_SECRETS = "/run/secrets"
#: Trainers run as any user, and make files that are theirs alone.
_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_FOWNER")
#: What the names of services and secrets begin with, and the longest that the swarm takes for a service.
_PREFIX, _NAME_CHARACTERS = "ct-agent-", 63
_MEMORY_BYTES = 512 << 20
#: Threads: the endpoint's 40 requests at a time, and a dozen others.
_PIDS = 96
#: By these NVIDIA's runtime, where it is a machine's default, lets the agent ask the driver what GPUs do
#: [NVIDIA Container Toolkit: "Environment variables"]. Others ignore them.
_GPU_ENVIRONMENT = ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility")
#: What the swarm says of a machine that could not pull, whatever the reason was.
_REJECTED, _NO_IMAGE = "rejected", "no such image"
#: The states of a task that say whether its machine has the image.
_TRIED = frozenset({"starting", "running", "complete", "failed", _REJECTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLaunch:
    """
    What the agents of a swarm are.

    :param image: has ``python -m training_service.agent``.
    :param pull_token: returns a fresh token for the image's registry; empty: machines pull without one.
    :param url: the training service, as every machine reaches it.
    :param token_of: returns what the agent of a machine shows, by the machine's id.
    :param metadata_port: where agents with the engine's socket serve the metadata endpoint of jobs; 0:
        nowhere.
    :param authority: certificates by which they verify an ``https`` URL, PEM; empty: the public ones.
    :param folder: absolute path of a folder that every machine has; the metrics are below it.
    :param docker_socket: the engine's socket, on every machine; empty: agents do not see containers.
    :param counts_disk: whether agents with the engine's socket count what containers write.
    :param egress: what agents with the engine's socket limit jobs to; ``None``: nothing is limited.
    """

    image: str
    url: str
    token_of: Callable[[str], str] = field(repr=False)
    folder: str
    docker_socket: str = ""
    metadata_port: int = 0
    authority: str = ""
    egress: Egress | None = None
    counts_disk: bool = False
    pull_token: Callable[[], str] = field(default=str, repr=False, compare=False)

    def secrets_of(self, machine: str) -> Mapping[str, str]:
        """Return the content of each secret of a machine's agent, by the name of its file there."""
        return {_TOKEN: self.token_of(machine), **({_AUTHORITY: self.authority} if self.authority else {})}

    @property
    def has_metadata(self) -> bool:
        """Whether agents serve the metadata endpoint: only the engine knows whose an address is."""
        return bool(self.docker_socket and self.metadata_port)

    def metric_folder(self, service_id: str, machine: str) -> str:
        """Return the folder of a machine's streams, as its engine has it."""
        return f"{self.folder}/{service_id}/{machine}"


def agent_service_name(service_id: str, machine: str) -> str:
    """Return the name of the service of a machine's agent; it has at most 63 characters."""
    return f"{_PREFIX}{service_id}"[: _NAME_CHARACTERS - len(machine) - 1] + f"-{machine}"


def agent_secret_name(service_id: str, content: str) -> str:
    """Return the name of the secret with this content: another one has another name."""
    return f"{f'{_PREFIX}{service_id}'[:50]}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def agent_service_spec(
    service_id: str, machine: str, agent: AgentLaunch, secret_ids: Mapping[str, str]
) -> dict[str, Any]:
    """
    Return the service of a machine's agent: one container, which the swarm starts again.

    :param machine: its id in the swarm.
    :param secret_ids: the swarm's id of each of the agent's secrets.
    """
    folder = f"{_FOLDER}/{service_id}"
    socket = (
        [{"Type": "bind", "Source": agent.docker_socket, "Target": _SOCKET, "ReadOnly": True}]
        if agent.docker_socket
        else []
    )
    container = {
        "Image": agent.image,
        "Command": ["python3", "-m", "training_service.agent"],
        "Env": [
            f"TRAINING_AGENT_URL={agent.url}",
            f"TRAINING_AGENT_NODE={machine}",
            f"TRAINING_AGENT_FOLDER={folder}",
            f"TRAINING_AGENT_LABEL={SERVICE}={service_id}",
            f"TRAINING_AGENT_DOCKER_SOCKET={_SOCKET if agent.docker_socket else ''}",
            f"TRAINING_AGENT_METADATA_PORT={agent.metadata_port if agent.has_metadata else 0}",
            f"TRAINING_AGENT_TOKEN_FILE={_SECRETS}/{_TOKEN}",
            f"TRAINING_AGENT_AUTHORITY_FILE={f'{_SECRETS}/{_AUTHORITY}' if agent.authority else ''}",
            *_egress_environment(agent.egress),
            *(["TRAINING_AGENT_COUNTS_DISK=1"] if agent.counts_disk and agent.docker_socket else []),
            *(_GPU_ENVIRONMENT if agent.docker_socket else ()),
        ],
        "User": "0:0",
        "Secrets": [
            {
                "SecretID": secret_ids[name],
                "SecretName": agent_secret_name(service_id, content),
                "File": {"Name": name, "UID": "0", "GID": "0", "Mode": 0o400},
            }
            for name, content in agent.secrets_of(machine).items()
        ],
        "Mounts": [{"Type": "bind", "Source": agent.folder, "Target": _FOLDER}, *socket],
        "ReadOnly": True,
        "Init": True,
        "CapabilityDrop": ["ALL"],
        "CapabilityAdd": list(_CAPABILITIES),
        "Privileges": {"NoNewPrivileges": True},
        "Hosts": [f"host-gateway {MACHINE_NAME}"],
        "Labels": {AGENT_OF: service_id},
    }
    spec: dict[str, Any] = {
        "Name": agent_service_name(service_id, machine),
        "Labels": {AGENT_OF: service_id},
        # Global: it starts with its machine, and has no pending task while that is drained.
        "Mode": {"Global": {}},
        "TaskTemplate": {
            "ContainerSpec": container,
            "Resources": {"Limits": {"MemoryBytes": _MEMORY_BYTES, "Pids": _PIDS}},
            "Placement": {"Constraints": [f"node.id=={machine}"]},
            "RestartPolicy": {"Condition": "any", "Delay": 1_000_000_000},
            "LogDriver": {"Name": log_files().type, "Options": log_files().config},
            # Containers of a machine have addresses of their own only towards that machine itself.
            **({"Networks": [{"Target": "host"}]} if agent.has_metadata else {}),
        },
    }
    spec["Labels"][AGENT_SPEC] = _digest(spec)
    return spec


def _egress_environment(egress: Egress | None) -> list[str]:
    if egress is None:
        return []
    endpoints = json.dumps([str(endpoint) for endpoint in egress.endpoints])
    return [f"TRAINING_AGENT_EGRESS={egress.mode}", f"TRAINING_AGENT_EGRESS_ALLOW={endpoints}"]


def is_refused_image(tasks: Iterable[Mapping[str, Any]]) -> bool:
    """
    Tell whether a machine could not pull the agents' image when it last tried. Pure.

    :param tasks: of its agent's service.
    """
    last: dict[str, Mapping[str, Any]] = {}
    for task in sorted(tasks, key=lambda task: str(task["CreatedAt"])):
        if task["Status"]["State"] in _TRIED:
            last[task.get("NodeID", "")] = task["Status"]
    return any(
        status["State"] == _REJECTED and _NO_IMAGE in status.get("Err", "").lower()
        for status in last.values()
    )


def _digest(spec: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:32]
