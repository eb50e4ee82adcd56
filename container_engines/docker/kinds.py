"""
Which engines answer to Docker's API, and in what they differ.

The differences of Podman were seen with 4.3.1; ``docs/podman.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from docker.types import LogConfig

from container_engines.docker.log_files import log_files, one_log_file
from container_engines.docker.stamps import OrdinalStamps, Stamps

#: Of a network of 256 addresses, as Podman makes them, less its own, the gateway's and the broadcast's.
_ADDRESSES_OF_PODMAN = 253
_PODMANS_HEADER = "Libpod-API-Version"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineKind:
    """
    An engine that speaks Docker's API, and its own way with some of it.

    :param log_files: how it keeps a container's output, by the megabytes of each of two files.
    :param token_field: the field of a login in which it takes a registry's token.
    :param stamps: makes what reads the times of a log.
    :param knows_its_machine: whether ``host-gateway`` is its word for its machine's address. Otherwise the
        gateway of a container's network is taken.
    :param closes_networks: whether it can close the containers of a network to each other.
    :param grants_gpus: whether a container gets the GPUs that its request names.
    :param tells_pools: whether the number of its networks can be computed from its ``info``.
    :param most_replicas: how many containers one network has addresses for; ``None``: more than a job has.
    :param missing_limits: by the engine's ``info``, why its containers would run without limits; empty: they
        have them. ``None``: they always have.
    """

    name: str
    log_files: Callable[[int], LogConfig]
    token_field: str
    stamps: Callable[[], Stamps]
    knows_its_machine: bool
    closes_networks: bool
    grants_gpus: bool
    tells_pools: bool
    most_replicas: int | None
    missing_limits: Callable[[Mapping[str, Any]], str] | None

    def token_login(self, token: str) -> dict[str, str]:
        """Return the login by a registry's token; empty, so anonymous, without one."""
        return {self.token_field: token} if token else {}


def _missing_limits(info: Mapping[str, Any]) -> str:
    if not info.get("Rootless") or str(info.get("CgroupVersion")) != "1":
        return ""
    return (
        "a rootless Podman drops the limits of memory, cores and processes where the machine has control groups of version "
        "1: run Podman's service as root, or on a machine with version 2 (docs/podman.md)"
    )


DOCKER = EngineKind(
    name="Docker",
    log_files=log_files,
    token_field="registrytoken",  # noqa: S106  # the name of a field
    stamps=Stamps,
    knows_its_machine=True,
    closes_networks=True,
    grants_gpus=True,
    tells_pools=True,
    most_replicas=None,
    missing_limits=None,
)
PODMAN = EngineKind(
    name="Podman",
    log_files=one_log_file,
    # It drops `registrytoken`. It shows this one to the registry's token endpoint, as a refresh token.
    token_field="identitytoken",  # noqa: S106  # the name of a field
    stamps=OrdinalStamps,
    knows_its_machine=False,
    closes_networks=False,  # it keeps networks apart, but not what is in one
    grants_gpus=False,  # it drops `DeviceRequests` without a word
    tells_pools=False,  # 42,752 of them [containers.conf: default_subnet_pools]
    most_replicas=_ADDRESSES_OF_PODMAN,
    missing_limits=_missing_limits,
)


def kind_of(headers: Mapping[str, Any]) -> EngineKind:
    """
    Return which engine this is.

    :param headers: those of any answer, by names of any case.
    """
    return PODMAN if _PODMANS_HEADER in headers else DOCKER
