"""Images for a swarm: a registry that all machines reach, and the image of their agents."""

from __future__ import annotations

import base64
import io
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import docker

from local_stack.parts.agent_image import agent_image as own_agent_image
from local_stack.processes.progress import Progress
from tests.support.bed import played_nvml
from tests.support.bed.registry import REPOSITORY, push, run_registry
from tests.support.own_images import build_image
from tests.support.run_id import current_run
from training_api.job.image_ref import ImageRef, parse_image_ref

Push = Callable[[str], ImageRef]
#: The agent as a machine runs it, and a trainer with the unmodified package from PyPI, in one image. Machines
#: of tests have no GPU: a driver is played for containers that name one.
_AGENT = """
FROM {agent}
RUN pip install --no-cache-dir cloudml-hypertune==0.1.0.dev6
RUN echo {driver} | base64 -d > /opt/agent/pynvml.py
"""
_DRIVER = Path(played_nvml.__file__)


@contextmanager
def registry_of_swarm(program: Path, folder: Path, engine: docker.APIClient, host: str) -> Iterator[Push]:
    """
    Yield what pushes an image of ``engine`` to a registry, and returns it by digest.

    :param host: where the registry listens.
    :param program: the registry's.
    :param folder: for its files.
    """

    def push_image(name: str) -> ImageRef:
        return parse_image_ref(f"{host}/{REPOSITORY}@{push(program, folder, engine, name)}")

    with run_registry(program, folder, host):
        yield push_image


def push_agent_image(push_image: Push, engine: docker.APIClient, base_image: str) -> ImageRef:
    """Push the agent of this checkout, with cloudml-hypertune, and return it by digest."""
    agent, name = own_agent_image(base_image), current_run().image(f"agent:{uuid.uuid4().hex}")
    with closing(docker.from_env()) as client:
        agent.ensure(client, Progress(quiet=True))
    driver = base64.b64encode(_DRIVER.read_bytes()).decode()
    build_image(engine, name, fileobj=io.BytesIO(_AGENT.format(agent=agent.name, driver=driver).encode()))
    pushed = push_image(name)
    engine.remove_image(name)
    return pushed
