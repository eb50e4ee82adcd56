"""
Keeps the agents of a swarm's machines in place: one service for each machine.

The swarm gives a secret only to the machines that run its service, so the token of one machine's agent is on
no other machine but the managers.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from docker.errors import NotFound

from container_engines.docker.client import post
from container_engines.docker.errors import engine_errors
from container_engines.swarm.agent import (
    AGENT_OF,
    AGENT_SPEC,
    AgentLaunch,
    agent_secret_name,
    agent_service_name,
    agent_service_spec,
    is_refused_image,
)
from container_engines.swarm.api import SwarmApi
from container_engines.swarm.images import pull_headers
from training_api.errors import EngineError

#: A machine's agent gets no other login before: each one starts pulls again that have not ended.
_LOGIN_SECONDS = 600.0


class MachineAgents:
    """
    The agents of one training service; safe to be called again after a kill at any moment.

    :param swarm: its manager.
    """

    def __init__(self, service_id: str, swarm: SwarmApi) -> None:
        self._service_id = service_id
        self._swarm = swarm
        self._labels = {AGENT_OF: service_id}
        self._filter = {"label": [f"{AGENT_OF}={service_id}"]}
        #: When a machine's service got a login from this process.
        self._login_at: dict[str, float] = {}

    def keep(self, agent: AgentLaunch) -> None:
        """
        Make and update what each machine needs, and remove what is left of others.

        A login alone restarts no agent: the swarm compares specifications of running containers without it.
        A machine whose agent cannot be made stops no other.

        :raises EngineError: of the first machine whose agent could not be made; it is to be called again.
        """
        machines = self._swarm.nodes().keys()
        services, secrets = self._services(), self._secrets()
        names = {agent_service_name(self._service_id, machine): machine for machine in machines}
        for name in services.keys() - names.keys():
            # Also what an earlier version made, one service for all machines: its ports are needed.
            self._swarm.remove_service(services[name]["ID"])
        token = agent.pull_token()
        tasks = self._tasks() if token else {}
        used: set[str] = set()
        failures = []
        for name, machine in names.items():
            try:
                ids = {
                    file: self._secret_id(content, secrets)
                    for file, content in agent.secrets_of(machine).items()
                }
                used.update(ids.values())
                spec = agent_service_spec(self._service_id, machine, agent, ids)
                self._ensure(spec, services.get(name), token, tasks)
            except EngineError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        self._remove_secrets(set(secrets.values()) - used)

    def remove(self) -> None:
        """Remove the agents and their secrets, if there are any."""
        for item in self._services().values():
            self._swarm.remove_service(item["ID"])
        self._remove_secrets(self._secrets().values())

    def _secret_id(self, content: str, secrets: dict[str, str]) -> str:
        """Return the id of the secret with this content; it is made unless it is among ``secrets``."""
        name = agent_secret_name(self._service_id, content)
        if name not in secrets:
            secrets[name] = self._swarm.ensure_secret(name, self._labels, content.encode())
        return secrets[name]

    def _ensure(
        self,
        spec: Mapping[str, Any],
        found: Mapping[str, Any] | None,
        token: str,
        tasks: Mapping[str, list[dict[str, Any]]],
    ) -> None:
        """Make a machine's service, or update it: another one is wanted, or it needs a fresh login."""
        name, client = spec["Name"], self._swarm.client
        path, options = "/services/create", {}
        if found:
            is_another = found["Spec"]["Labels"].get(AGENT_SPEC) != spec["Labels"][AGENT_SPEC]
            if not is_another and not (token and self._is_login_missing(name, tasks.get(found["ID"], []))):
                return
            path = f"/services/{found['ID']}/update"
            options = {"params": {"version": str(found["Version"]["Index"])}}
        with engine_errors(f"start the agent of a machine, service {name}"):
            post(client, path, dict(spec), headers=pull_headers(token), **options)
        self._login_at[name] = time.monotonic()

    def _is_login_missing(self, name: str, tasks: list[dict[str, Any]]) -> bool:
        """Tell whether the machine was refused the agents' image, and the login may be to blame."""
        is_fresh = time.monotonic() < self._login_at.get(name, -math.inf) + _LOGIN_SECONDS
        return not is_fresh and is_refused_image(tasks)

    def _services(self) -> dict[str, dict[str, Any]]:
        client = self._swarm.client
        with engine_errors("list the agents of the machines"):
            found = client.services(filters=self._filter)  # type: ignore[no-untyped-call]
        return {item["Spec"]["Name"]: item for item in found}

    def _secrets(self) -> dict[str, str]:
        """Return the id of each secret, by its name."""
        client = self._swarm.client
        with engine_errors("list the secrets of agents"):
            return {item["Spec"]["Name"]: item["ID"] for item in client.secrets(filters=self._filter)}

    def _tasks(self) -> Mapping[str, list[dict[str, Any]]]:
        """Return the tasks of each service, by its id."""
        client, found = self._swarm.client, defaultdict(list)
        with engine_errors("list the tasks of agents"):
            for task in client.tasks(filters=self._filter):  # type: ignore[no-untyped-call]
                found[task["ServiceID"]].append(task)
        return found

    def _remove_secrets(self, secret_ids: Iterable[str]) -> None:
        client = self._swarm.client
        with engine_errors("remove secrets of agents"):
            for secret_id in secret_ids:
                with suppress(NotFound):
                    client.remove_secret(secret_id)
