"""What a person does with a swarm instead of submitting jobs: requests to the manager's API."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import docker

from container_engines.docker.client import post

_PATIENCE_SECONDS = 300.0
_POLL_SECONDS = 0.05


class SwarmByHand:
    """
    The Swarm services of a person, and the networks of these; safe for threads.

    :param client: of the manager's engine. ``Any``: docker-py's methods for services have no annotations.
    """

    def __init__(self, client: docker.APIClient) -> None:
        self._client: Any = client

    def specs(self, label: str) -> list[dict[str, Any]]:
        """Return the specifications of the services with a label, whosever they are."""
        return [item["Spec"] for item in self._client.services(filters={"label": label})]

    def running(self, label: str) -> set[tuple[str, str, str]]:
        """
        Return the tasks that run, of services with ``label``.

        :return: of each its machine's id, the label's value and its host name.
        """
        found = {item["ID"]: item["Spec"] for item in self._client.services(filters={"label": label})}
        return {
            (task["NodeID"], spec["Labels"][label], spec["TaskTemplate"]["ContainerSpec"]["Hostname"])
            for task in self._client.tasks(filters={"label": label, "desired-state": "running"})
            if task["Status"]["State"] == "running" and (spec := found.get(task["ServiceID"]))
        }

    @contextmanager
    def network(self) -> Iterator[tuple[str, str]]:
        """Yield id and name of a new overlay network; services of its name go with it."""
        name = f"bench-{uuid.uuid4().hex[:12]}"
        made: str = self._client.create_network(name, driver="overlay", attachable=True)["Id"]
        try:
            yield made, name
        finally:
            for item in self._client.services(filters={"name": name}):
                self.remove(item["ID"])
            self.wait_until_gone({"name": name})
            self._client.remove_network(made)

    def create(self, spec: Mapping[str, Any]) -> str:
        """Make a service; return its id."""
        return str(post(self._client, "/services/create", dict(spec))["ID"])

    def remove(self, service_id: str) -> None:
        """Remove a service."""
        self._client.remove_service(service_id)

    def wait_for(self, count: int, states: set[str], poll_seconds: float, **filters: str) -> None:
        """
        Return when ``count`` of the filtered tasks are in one of ``states``.

        :raises RuntimeError: not in five minutes.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len([state for state in self._states(filters) if state in states]) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"tasks {filters} are {self._states(filters)} after {_PATIENCE_SECONDS:g} s"
                )
            time.sleep(poll_seconds)

    def wait_until_gone(self, filters: Mapping[str, str]) -> None:
        """
        Return when neither services nor tasks are left, to take time from the next ones.

        :raises RuntimeError: not in five minutes.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._client.services(filters=filters) or self._states(filters):
            if time.monotonic() > deadline:
                raise RuntimeError(f"services {filters} are not gone after {_PATIENCE_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)

    def _states(self, filters: Mapping[str, str]) -> list[str]:
        return [task["Status"]["State"] for task in self._client.tasks(filters=filters)]
