"""Containers of trainers on an Airflow worker's engine: how they are confined, whose they are, how they go."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import Any

import docker.errors
from docker.api import APIClient

from container_engines.confinement import DROPPED_CAPABILITIES, PIDS_LIMIT, SECURITY_OPTIONS
from container_engines.docker.errors import engine_errors
from container_training.work.images.engine import OWNER_LABEL
from training_api.job.machines import Resources

_NANO = 1_000_000_000


def host_config(
    api_client: APIClient,
    *,
    memory_bytes: int | None,
    cpus: float | None,
    pids: int = PIDS_LIMIT,
    **options: Any,
) -> dict[str, Any]:
    """
    Return the confinement of a trainer's container; from within, this machine is ``host.docker.internal``.

    :param memory_bytes: limit, swap included; None is none.
    :param cpus: limit in cores; None is none.
    :param options: of docker-py's ``create_host_config``, beside these.
    """
    return api_client.create_host_config(
        init=True,
        extra_hosts={"host.docker.internal": "host-gateway"},
        security_opt=list(SECURITY_OPTIONS),
        cap_drop=list(DROPPED_CAPABILITIES),
        pids_limit=pids,
        nano_cpus=int(cpus * _NANO) if cpus else None,
        mem_limit=memory_bytes,
        # Without this the engine adds as much swap again, and a leak is slow instead of stopped.
        memswap_limit=memory_bytes,
        **options,
    )


def host_resources(api_client: APIClient) -> Resources:
    """
    Return what the engine's host has; its GPUs are not counted, as no container here gets any.

    :raises EngineUnavailable: the engine does not answer.
    """
    with engine_errors("ask for the machine's size"):
        info: dict[str, Any] = api_client.info()
    return Resources(cpus=float(info["NCPU"]), memory_bytes=int(info["MemTotal"]))


def remove_leftovers(api_client: APIClient, owner: str) -> None:
    """Remove every container and network of ``owner``, running or not."""
    mine = {"label": f"{OWNER_LABEL}={owner}"}
    for left in api_client.containers(all=True, filters=mine):
        remove_container(api_client, left["Id"])
    for network in api_client.networks(filters=mine):
        with suppress(docker.errors.NotFound):
            api_client.remove_network(network["Id"])


def remove_container(api_client: APIClient, container: str) -> None:
    """Remove ``container`` with its volumes, running or not; that it is gone, or just going, is what was wanted."""
    try:
        api_client.remove_container(container, force=True, v=True)
    except docker.errors.APIError as error:
        # 409: somebody else is removing it, like a task's on_kill.
        if error.status_code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise
