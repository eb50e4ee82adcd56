"""A training service over a swarm of three machines, with an agent on each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import psutil
from docker.utils import kwargs_from_env

from benchmarks.support.swarm_by_hand import SwarmByHand
from local_stack.parts.base_image import BaseImage
from local_stack.parts.registry import ensure_registry_program
from local_stack.settings import Part, StackSettings
from local_stack.stack import LocalStack
from tests.support.bed.swarm import Swarm
from tests.support.bed.swarm_images import push_agent_image, registry_of_swarm
from tests.support.bed.swarm_service import Service, service_with_agents
from training_api.clients.training import TrainingClient

_REGISTRY_PORT = 5000
#: All replicas of a question have room at once, on machines that share two cores.
_SETTINGS = {"TRAINING_OVERCOMMIT": "16"}


@dataclass(frozen=True, slots=True)
class ThreeMachines:
    """
    The swarm, the service over it, and what asks them.

    :param swarm: its machines.
    :param image: ``python3`` with cloudml-hypertune, by digest; each machine has it.
    """

    swarm: Swarm
    service: Service
    image: str
    client: TrainingClient
    by_hand: SwarmByHand

    @property
    def process(self) -> psutil.Process:
        """The service's process."""
        return psutil.Process(self.service.pid)


@contextmanager
def three_machines() -> Iterator[ThreeMachines]:
    """
    Yield the machines; they, and what was made for them, are gone afterwards.

    :raises RuntimeError: they cannot be made, or there is no registry program.
    """
    stack = LocalStack(StackSettings())
    stack.up([Part.ENGINE, Part.BASE_IMAGE])
    registry = ensure_registry_program(stack.settings, stack.packages)
    if registry is None:
        raise RuntimeError("machines of a swarm need a registry: install the Debian package docker-registry")
    swarm = Swarm(nodes=3, registry_ports=[_REGISTRY_PORT])
    try:
        swarm.up()
        with (
            tempfile.TemporaryDirectory(prefix="bench-swarm-") as folder,
            closing(docker.APIClient(**kwargs_from_env())) as engine,
            registry_of_swarm(registry, Path(folder), engine, swarm.registry(_REGISTRY_PORT)) as push,
        ):
            # The agents' image is that of the trainers: a machine with an agent has pulled it.
            image = push_agent_image(push, engine, BaseImage.name_of(stack.settings))
            with (
                service_with_agents(swarm, image, Path(folder), _SETTINGS) as service,
                TrainingClient(service.url, "bench") as client,
                closing(swarm.manager.client()) as manager,
            ):
                yield ThreeMachines(swarm, service, image.pullable, client, SwarmByHand(manager))
    finally:
        swarm.down()
