"""
Builds with the engine's BuildKit, by docker's command line.

BuildKit asks its caller for secrets and for the SSH agent, over a session that docker-py does not speak. The
command line does. It gets the packed context on its standard input, as the classic builder does.
"""

from __future__ import annotations

import os

from container_training.work.images.builders.build_order import BuildOrder
from container_training.work.images.builders.client_build import run_build
from container_training.work.images.builders.docker_cli import find_buildkit_cli
from container_training.work.images.engine import EngineAddress


def build_with_buildkit(order: BuildOrder, engine: EngineAddress) -> None:
    """
    Build what ``order`` says.

    :raises BuildKitMissing: no command line of this machine can drive it, or the engine has none.
    :raises BuildFailed: a step failed, or the build was cancelled.
    :raises DiskFull: the engine's disk has no room.
    :raises EngineUnavailable: the engine does not answer.
    :raises RegistryUnavailable: the registry of an image that the Dockerfile names does not answer.
    """
    run_build([find_buildkit_cli(), "build"], order, _environment(engine))


def _environment(engine: EngineAddress) -> dict[str, str]:
    return {
        **os.environ,
        **engine.environment(),
        "DOCKER_BUILDKIT": "1",
        # Buildx: use the engine's BuildKit, which keeps the image, and make no attestations, with which the
        # image would be a list of images.
        "BUILDX_BUILDER": "default",
        "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
    }
