"""What calls to a worker's Docker Engine have in common: where it is, and a way to end a call from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import docker.errors
import requests
from docker.api import APIClient

from container_engines.docker.errors import engine_errors

#: The label of everything that this project makes on an engine, so that it can be found and removed.
OWNER_LABEL = "container-training.owner"


DEFAULT_ENGINE_URL = "unix:///var/run/docker.sock"


def default_engine_url() -> str:
    """Return where the engine is unless somebody says otherwise: DOCKER_HOST, else the local socket."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE_URL


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


def find_image(api_client: APIClient, name: str) -> dict[str, Any] | None:
    """
    Return the engine's description of the image ``name``; None if it has no such image.

    :raises EngineUnavailable: the engine did not answer.
    """
    with engine_errors(f"look for {name}"):
        try:
            image: dict[str, Any] = api_client.inspect_image(name)  # type: ignore[no-untyped-call]
        except docker.errors.NotFound:
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
