"""docker-py's errors into the project's own, by the table of ``error_table.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
import urllib3.exceptions
from docker.errors import APIError, DockerException

from container_engines.docker.error_table import IN_STREAM, Asked, Refusal, refusal_of
from training_api.errors import (
    CommandNotFound,
    DiskFull,
    EngineBusy,
    EngineError,
    EngineUnavailable,
    ImageAccessDenied,
    ImageNotFound,
    RegistryUnavailable,
    TrainingError,
)

_CLASSES: Mapping[Refusal, type[TrainingError]] = {
    Refusal.NO_IMAGE: ImageNotFound,
    Refusal.NO_ACCESS: ImageAccessDenied,
    Refusal.NO_COMMAND: CommandNotFound,
    Refusal.NO_ROOM: DiskFull,
    Refusal.INVALID: EngineError,
    Refusal.BUSY: EngineBusy,
    Refusal.NO_REGISTRY: RegistryUnavailable,
    Refusal.NO_ENGINE: EngineUnavailable,
}


@contextmanager
def engine_errors(doing: str, asked: Asked = Asked.ENGINE) -> Iterator[None]:
    """
    Turn what docker-py raises inside the block into ``EngineError`` and its kinds.

    :param doing: what was tried, for the message: ``start container X``.
    :raises EngineUnavailable: the engine did not answer, or does not work now.
    :raises EngineBusy: it refused, and may not later.
    :raises ImageNotFound: there is no such image, or (``ImageAccessDenied``) no right to pull it.
    :raises CommandNotFound: the image has no such program.
    :raises DiskFull: its disk has no room.
    :raises RegistryUnavailable: the registry that it asked did not answer.
    :raises EngineError: it refused the request itself.
    """
    try:
        yield
    except APIError as error:
        raise engine_error(
            doing, str(error.explanation or error), status=error.status_code or IN_STREAM, asked=asked
        ) from error
    except (
        requests.RequestException,
        # docker-py reads streams below requests, so that urllib3's own errors come through.
        urllib3.exceptions.HTTPError,
        DockerException,
        OSError,
    ) as error:
        raise EngineUnavailable(f"the Docker Engine did not answer to {doing!r}: {error}") from error


def engine_error(
    doing: str, text: str, *, status: int = IN_STREAM, asked: Asked = Asked.ENGINE
) -> TrainingError:
    """Return the error for a refusal that the engine explains by ``text``."""
    refusal = refusal_of(text, status=status, asked=asked)
    message = f"{doing}: {text.strip()}"
    if refusal is Refusal.NO_ROOM:
        message += "; the engine's disk has no room: free some (docker system df shows what takes it)"
    return _CLASSES[refusal](message)


def without_errors(messages: Iterable[Mapping[str, Any]], doing: str) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of a pull or a push; raise the error among them, which docker-py hides."""
    for message in messages:
        if "error" in message:
            raise engine_error(doing, str(message["error"]), asked=Asked.REGISTRY)
        yield message
