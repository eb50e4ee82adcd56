"""What every call to the Docker Engine has in common: its errors by name, and a way to end it from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import docker.errors
import requests
import urllib3.exceptions
from docker.api import APIClient

from training_api.errors import DiskFull, EngineError, EngineUnavailable, ImageNotFound

#: The label of everything that this project makes on an engine, so that it can be found and removed.
OWNER_LABEL = "container-training.owner"


DEFAULT_ENGINE_URL = "unix:///var/run/docker.sock"


def default_engine_url() -> str:
    """Return where the engine is unless somebody says otherwise: DOCKER_HOST, else the local socket."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE_URL


class EngineRequestInvalid(EngineError):
    """The engine refused a request for what it says (HTTP 4xx)."""


class Cancellation:
    """
    Ends the engine call that is under way.

    ``cancel`` is made for a signal handler (``on_kill``): it interrupts a blocked read of the same thread, whose
    reader then finds ``is_cancelled``.
    """

    def __init__(self) -> None:
        self.is_cancelled = False
        self._stop: Callable[[], object] | None = None

    @contextmanager
    def stops_with(self, stop: Callable[[], object]) -> Iterator[None]:
        """While open, ``cancel`` calls ``stop``."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def cancel(self) -> None:
        """End what is under way, if anything is, and what would come next."""
        self.is_cancelled = True
        if self._stop is not None:
            self._stop()


@contextmanager
def engine_errors() -> Iterator[None]:
    """
    Turn docker-py's and its transport's errors into the project's.

    :raises ImageNotFound: the engine has no such image.
    :raises DiskFull: its disk has no room.
    :raises EngineUnavailable: it did not answer.
    :raises EngineRequestInvalid: it refused the request itself.
    :raises EngineError: it refused for another reason.
    """
    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise ImageNotFound(f"the engine has no such image: {error.explanation}") from error
    except docker.errors.APIError as error:
        message = str(error.explanation or error)
        if error.is_client_error():
            raise EngineRequestInvalid(f"the Docker Engine refused: {message}") from error
        raise engine_error(message) from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        # docker-py reads streams below requests, so that urllib3's own errors come through.
        raise EngineUnavailable(f"the Docker Engine did not answer: {error}") from error
    except docker.errors.DockerException as error:
        raise EngineError(f"the Docker Engine cannot be used: {error}") from error


def engine_error(message: str) -> EngineError:
    """Return the error for a refusal that the engine explains by ``message``; pure."""
    if is_disk_full(message):
        return DiskFull(
            f"the Docker Engine's disk has no room: {message}; free some, for example: docker system prune"
        )
    return EngineError(f"the Docker Engine refused: {message}")


def is_disk_full(message: str) -> bool:
    """Tell whether ``message`` is the kernel's text for a full disk; there is no code for it in the engine's API."""
    return "no space left on device" in message.lower()


def find_image(api_client: APIClient, name: str) -> dict[str, Any] | None:
    """
    Return the engine's description of the image ``name``; None if it has no such image.

    :raises EngineUnavailable: the engine did not answer.
    """
    with engine_errors():
        try:
            image: dict[str, Any] = api_client.inspect_image(name)  # type: ignore[no-untyped-call]
        except docker.errors.ImageNotFound:
            return None
    return image


@contextmanager
def closed_answers(api_client: APIClient) -> Iterator[None]:
    """
    While open, the engine's answers are kept, to be closed at the end.

    docker-py hands out the output of a container without its answer, and leaves the connection open when the output has ended.
    """
    answers: list[requests.Response] = []

    def keep(answer: requests.Response, *_: Any, **__: Any) -> None:
        answers.append(answer)

    hooks = api_client.hooks["response"]
    hooks.append(keep)
    try:
        yield
    finally:
        hooks.remove(keep)
        for answer in answers:
            answer.close()


@contextmanager
def stoppable_answers(api_client: APIClient, cancellation: Cancellation) -> Iterator[None]:
    """
    While open, ``cancellation.cancel()`` ends the reading of ``api_client``'s streamed answers.

    The engine stops a build or a push when its caller is gone.
    """
    answers: list[requests.Response] = []

    def remember(answer: requests.Response, *_: Any, **__: Any) -> None:
        answers[:] = [answer]

    def stop_reading() -> None:
        for answer in answers:
            answer.raw.shutdown()

    hooks = api_client.hooks["response"]
    hooks.append(remember)
    try:
        with cancellation.stops_with(stop_reading):
            yield
    finally:
        hooks.remove(remember)
        for answer in answers:
            answer.close()
