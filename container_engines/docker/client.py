"""The connection to a Docker Engine: one client for all threads, made when it is first needed."""

from __future__ import annotations

import threading
from typing import Any

import docker
import requests
from docker.errors import create_api_error_from_http_exception
from docker.utils import kwargs_from_env

from container_engines.docker.errors import engine_errors

_TIMEOUT_SECONDS = 60


class DockerConnection:
    """
    docker-py's low-level client, for many threads.

    :param docker_host: ``unix://...`` or ``tcp://...``; empty: ``DOCKER_HOST`` or the default socket.
    """

    def __init__(self, docker_host: str = "") -> None:
        self._docker_host = docker_host
        self._lock = threading.Lock()
        self._api: docker.APIClient | None = None

    @property
    def is_local(self) -> bool:
        """Whether the engine is behind a socket file, and so on this machine."""
        host = self._docker_host or str(kwargs_from_env().get("base_url") or "")
        return not host or host.startswith(("unix://", "http+unix://", "/"))

    @property
    def client(self) -> docker.APIClient:
        """
        The client.

        :raises EngineUnavailable: the engine does not answer.
        """
        # Made when first needed: the service starts, and says what is wrong, also while the engine is down.
        with self._lock, engine_errors("connect"):
            if self._api is None:
                environment = kwargs_from_env()
                if self._docker_host:
                    environment["base_url"] = self._docker_host
                self._api = docker.APIClient(
                    version="auto", timeout=_TIMEOUT_SECONDS, max_pool_size=64, **environment
                )
            return self._api

    def close(self) -> None:
        """Close the connections; may be called twice. The next use opens new ones."""
        with self._lock:
            if self._api is not None:
                self._api.close()


def post(
    client: docker.APIClient,
    path: str,
    body: dict[str, Any],
    *,
    params: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """
    Ask the engine for what docker-py has no function for, or not with what is needed here.

    :raises docker.errors.APIError: the engine refused.
    """
    url = f"{client.base_url}/v{client.api_version}{path}"
    with client.post(url, json=body, params=params, headers=headers, timeout=_TIMEOUT_SECONDS) as response:
        raise_for_status(response)
        return dict(response.json())


def raise_for_status(response: requests.Response) -> None:
    """:raises docker.errors.APIError: the engine refused."""
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        create_api_error_from_http_exception(error)
