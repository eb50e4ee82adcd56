"""
docker-py's errors into the project's own.

docker-py tells most failures apart only by the engine's English text; the texts matched here are those that the engine
and the registry were seen to give (Engine 20.10, distribution 2.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import requests
from docker.errors import APIError, DockerException

from training_api.errors import (
    DiskFull,
    EngineError,
    EngineUnavailable,
    ImageNotFound,
    RegistryUnavailable,
    TrainingError,
)

_NO_ROOM = ("no space left on device", "disk quota exceeded")
#: The engine is there, but is not, or not now, a manager of a swarm: its own words say what to do.
_NO_MANAGER = ("is not a swarm manager", "does not have a leader")
_NO_IMAGE = (
    "manifest unknown",
    "manifest for",
    "pull access denied",
    "repository does not exist",
    "repository name not known",
    "no such image",
    "name unknown",
    "denied",
    "unauthorized",
)
_NO_REGISTRY = (
    "connection refused",
    "no such host",
    "i/o timeout",
    "dial tcp",
    "tls handshake timeout",
    "client.timeout exceeded",
    "connection reset",
    "unexpected eof",
    "502 bad gateway",
    "503 service unavailable",
    "504 gateway time",
    "server misbehaving",
)


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """
    Turn what docker-py raises inside the block into ``EngineError`` and its kinds.

    :param doing: what was tried, for the message: ``start container X``.
    """
    try:
        yield
    except APIError as error:
        raise classify(doing, str(error.explanation or error)) from error
    except (requests.exceptions.RequestException, DockerException, OSError) as error:
        raise EngineUnavailable(f"the Docker Engine did not answer to {doing!r}: {error}") from error


def classify(doing: str, text: str) -> TrainingError:
    """Return the error that the engine's ``text`` stands for; ``EngineError`` if it is none that is known."""
    lowered = text.lower()
    message = f"{doing}: {text.strip()}"
    if any(sign in lowered for sign in _NO_ROOM):
        return DiskFull(f"{message}; free space on the engine's disk (docker system df shows what takes it)")
    if any(sign in lowered for sign in _NO_MANAGER):
        return EngineUnavailable(message)
    if any(sign in lowered for sign in _NO_REGISTRY):
        return RegistryUnavailable(message)
    if any(sign in lowered for sign in _NO_IMAGE):
        return ImageNotFound(message)
    return EngineError(message)
