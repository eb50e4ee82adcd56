"""Requests of one training service to a swarm's manager, in terms of ``tasks`` and ``spec``."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import docker
from docker.errors import APIError, NotFound

from container_engines.base import ReplicaLaunch
from container_engines.docker.client import DockerConnection, post
from container_engines.docker.errors import engine_errors
from container_engines.labels import JOB_UID, SERVICE, job_labels
from container_engines.swarm.addresses import has_address
from container_engines.swarm.pools import AddressPools, pools_of
from container_engines.swarm.spec import is_stopped, stopped
from container_engines.swarm.tasks import Node, Run, nodes_of, run_of
from container_engines.swarm.way_out import network_name, network_spec
from training_api.errors import EngineBusy

#: A network is still in use: by a task of the swarm, or by a container of this machine.
_IN_USE = ("is in use by", "has active endpoints")


class SwarmApi:
    """
    The services, tasks, networks and nodes of one training service; safe for threads.

    Every method raises ``EngineUnavailable`` or ``EngineError`` as those of ``Engine`` do. ``connection``
    leads to the manager's engine.
    """

    def __init__(self, service_id: str, docker_host: str) -> None:
        self._service_id = service_id
        self.connection = DockerConnection(docker_host)
        self._network_lock = threading.Lock()

    @property
    def client(self) -> docker.APIClient:
        """The manager's client."""
        return self.connection.client

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self.connection.close()

    def version(self) -> str:
        """Return the manager's version. :raises EngineError: the engine is no manager."""
        client = self.client
        with engine_errors("ask whether it is a manager of a swarm"):
            client.inspect_swarm()
            return str(client.version()["Version"])

    def nodes(self) -> dict[str, Node]:
        """Return the machines, by id."""
        client = self.client
        with engine_errors("list the machines of the swarm"):
            return nodes_of(client.nodes())

    def is_inside(self, address: str) -> bool:
        """Tell whether a machine, or a container on the manager's, may have the address."""
        client = self.client
        with engine_errors("list the machines and networks of the swarm"):
            return has_address(client.nodes(), client.networks(filters={"driver": "bridge"}), address)

    def services(self, job_uid: str = "") -> list[dict[str, Any]]:
        """Return the services of all jobs, or of one."""
        client = self.client
        with engine_errors("list services"):
            return list(client.services(filters={"label": self._label(job_uid)}))  # type: ignore[no-untyped-call]

    def networks(self, job_uid: str = "") -> list[dict[str, Any]]:
        """Return the networks of all jobs, or of one."""
        client = self.client
        with engine_errors("list networks"):
            return list(client.networks(filters={"label": self._label(job_uid)}))

    def tasks(self, *, service_id: str = "", job_uid: str = "") -> list[dict[str, Any]]:
        """
        Return the tasks of all jobs, of one job, or of one service.

        Those of a removed service that have not ended yet are among them, unless the service is named.
        """
        filters = {"service": [service_id]} if service_id else {"label": self._label(job_uid)}
        client = self.client
        with engine_errors("list tasks"):
            try:
                return list(client.tasks(filters=filters))  # type: ignore[no-untyped-call]
            except NotFound:  # the service is gone
                return []

    def runs(self, service_ids: Collection[str]) -> dict[str, Run | None]:
        """Return the run of each of these services; ``None``: no run yet, or no such service."""
        tasks = defaultdict(list)
        only = next(iter(service_ids)) if len(service_ids) == 1 else ""
        for task in self.tasks(service_id=only):
            tasks[task["ServiceID"]].append(task)
        nodes = self.nodes()
        return {service_id: run_of(tasks[service_id], nodes) for service_id in service_ids}

    def address_pools(self) -> AddressPools:
        """Return from what the swarm gives networks their addresses."""
        client = self.client
        with engine_errors("ask for the swarm's address pools"):
            return pools_of(client.info(), client.networks(filters={"driver": "overlay"}), self._label()[0])

    def ensure_network(self, launch: ReplicaLaunch, *, is_internal: bool = False) -> str:
        """
        Make the job's network unless it exists; return its id.

        :param is_internal: it is no way to the outside.
        """
        spec = {
            "Name": f"ct-{launch.job_uid}",
            "Driver": "overlay",
            "Attachable": True,
            "Internal": is_internal,
            "Labels": job_labels(self._service_id, launch),
        }
        return self._ensure_network(spec, f"make the network of job {launch.job_id}")

    def ensure_way_out(self) -> str:
        """Make the way out of all replicas unless it exists; return its id."""
        spec = network_spec(self._service_id)
        return self._ensure_network(spec, "make the network by which jobs reach what is outside")

    def remove_way_out(self) -> None:
        """Remove the way out of all replicas, if there is one and none uses it any more."""
        client, name = self.client, network_name(self._service_id)
        with engine_errors(f"look for network {name}"):
            found = client.networks(names=[name])
        for item in found:
            if item["Name"] == name:
                self.remove_network(item["Id"])

    def _ensure_network(self, spec: Mapping[str, Any], doing: str) -> str:
        client = self.client
        with self._network_lock, engine_errors(doing):
            for item in client.networks(names=[spec["Name"]]):
                if item["Name"] == spec["Name"]:
                    return str(item["Id"])
            return str(post(client, "/networks/create", dict(spec))["Id"])

    def ensure_service(self, spec: Mapping[str, Any], headers: dict[str, str]) -> str:
        """Make the service of ``spec`` unless one of its name exists; return its id."""
        client = self.client
        with engine_errors(f"make service {spec['Name']}"):
            try:
                return str(client.inspect_service(spec["Name"])["ID"])  # type: ignore[no-untyped-call]
            except NotFound:
                return str(post(client, "/services/create", dict(spec), headers=headers)["ID"])

    def ensure_secret(self, name: str, labels: Mapping[str, str], content: bytes) -> str:
        """Make a secret of the swarm unless one of its name exists; return its id."""
        client = self.client
        with engine_errors(f"make secret {name}"):
            try:
                return str(client.create_secret(name, content, dict(labels))["ID"])
            except APIError as error:
                if error.status_code != HTTPStatus.CONFLICT:
                    raise
            for item in client.secrets(filters={"name": [name]}):
                if item["Spec"]["Name"] == name:
                    return str(item["ID"])
        raise EngineBusy(f"secret {name} is just being removed")

    def remove_secrets(self, job_uid: str) -> None:
        """Remove the secrets of a job, whose services are gone."""
        client = self.client
        with engine_errors(f"remove the secrets of job {job_uid}"):
            for item in client.secrets(filters={"label": self._label(job_uid)}):
                with suppress(NotFound):
                    client.remove_secret(item["ID"])

    def order_stop(self, service_id: str) -> bool:
        """Have the service's container stopped; returns at once. ``False``: no such service."""
        client = self.client
        with engine_errors(f"stop service {service_id}"):
            try:
                found = client.inspect_service(service_id)  # type: ignore[no-untyped-call]
                if not is_stopped(found["Spec"]):
                    version = {"version": str(found["Version"]["Index"])}
                    post(client, f"/services/{service_id}/update", stopped(found["Spec"]), params=version)
            except NotFound:
                return False
            except APIError as error:
                if "update out of sequence" not in str(error.explanation):
                    raise
                raise EngineBusy(f"stop service {service_id}: {error.explanation}") from error
        return True

    def remove_service(self, service_id: str) -> None:
        """Remove the service; its container is stopped meanwhile."""
        client = self.client
        with engine_errors(f"remove service {service_id}"):
            try:
                client.remove_service(service_id)  # type: ignore[no-untyped-call]
            except NotFound:
                return

    def remove_network(self, network_id: str) -> None:
        """Have the network removed unless it is still in use; it may stay listed for a moment."""
        client = self.client
        with engine_errors(f"remove network {network_id}"):
            try:
                client.remove_network(network_id)
            except NotFound:
                return
            except APIError as error:
                # A manager that has forgotten it but still lists it answers 500 instead of 404 (seen: Engine
                # 20.10.24).
                if not any(sign in str(error.explanation) for sign in (*_IN_USE, f"{network_id} not found")):
                    raise

    def is_out_of_memory(self, run: Run) -> bool | None:
        """Whether the kernel ended it for its memory; ``None``: it is no container of the manager."""
        client = self.client
        with engine_errors(f"look at container {run.container_id[:12]}"):
            try:
                return bool(client.inspect_container(run.container_id)["State"]["OOMKilled"])
            except NotFound:
                return None

    def _label(self, job_uid: str = "") -> list[str]:
        return [f"{SERVICE}={self._service_id}", *([f"{JOB_UID}={job_uid}"] if job_uid else [])]
