"""What all calls to a worker's Docker Engine share: its address, and a way to end a call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests
from docker.api import APIClient

#: The label of everything that this project makes on an engine, to find and remove it by.
OWNER_LABEL = "container-training.owner"


DEFAULT_ENGINE_URL = "unix:///var/run/docker.sock"


def default_engine_url() -> str:
    """Return the default address of the engine: DOCKER_HOST, else the local socket."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE_URL


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAddress:
    """
    Where an engine is.

    :param url: as in ``DOCKER_HOST``.
    :param cert_path: the folder of ``ca.pem``, ``cert.pem`` and ``key.pem``, as in ``DOCKER_CERT_PATH``;
        empty: what the environment says of TLS holds.
    """

    url: str
    cert_path: str = ""

    def environment(self) -> dict[str, str]:
        """Return the variables by which docker's command line finds it."""
        tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": self.cert_path} if self.cert_path else {}
        return {"DOCKER_HOST": self.url, **tls}


class Cancellation:
    """
    Ends the current engine call.

    ``cancel`` is meant for a signal handler (``on_kill``): it interrupts a blocked read of the same thread,
    whose reader then finds ``is_cancelled``.
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
        """End the current call, if there is one, and any later one."""
        self.is_cancelled = True
        if self._stop is not None:
            self._stop()


@contextmanager
def stoppable_answers(api_client: APIClient, cancellation: Cancellation) -> Iterator[None]:
    """
    While open, ``cancellation.cancel()`` ends reading ``api_client``'s streamed answers.

    The engine stops a build or a push when its caller disconnects.
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
