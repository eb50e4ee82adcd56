"""The connection to a Docker Engine: one client for all threads, made on first use."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import docker
import requests
from docker.errors import create_api_error_from_http_exception
from docker.tls import TLSConfig
from docker.utils import kwargs_from_env, parse_host

from container_engines.docker.errors import engine_errors
from container_engines.docker.kinds import DOCKER, EngineKind, kind_of
from training_api.errors import EngineError

_TIMEOUT_SECONDS = 60
#: A working engine accepts a connection at once.
_CONNECT_SECONDS = 5
_UNIX = "http+unix://"


class DockerConnection:
    """
    docker-py's low-level client, for many threads.

    :param docker_host: ``unix://...`` or ``tcp://...``; empty: ``DOCKER_HOST`` or the default socket.
    """

    def __init__(self, docker_host: str = "") -> None:
        self._docker_host = docker_host
        self._lock = threading.Lock()
        self._api: docker.APIClient | None = None
        self._kind = DOCKER

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
        # Made on first use: the service starts, and reports what is wrong, even while the engine is down.
        with self._lock, engine_errors("connect"):
            if self._api is None:
                client_class = docker.APIClient if self.is_local else _NetworkClient
                api = client_class(
                    version="auto", timeout=_TIMEOUT_SECONDS, max_pool_size=64, **self._environment
                )
                self._kind, self._api = kind_of(_headers(api)), api
            return self._api

    @property
    def kind(self) -> EngineKind:
        """
        Which engine answers; asked once.

        :raises EngineUnavailable: the engine does not answer.
        """
        self.client  # noqa: B018  # which asks
        return self._kind

    @contextmanager
    def fresh(self) -> Iterator[docker.APIClient]:
        """
        Yield a client that opens new connections.

        The shared pool may hold connections that a bad network has cut without a sign: a request on one waits
        for its timeout. Use this for a request that is made only once.

        :raises EngineUnavailable: the engine does not answer.
        """
        version = self.client.api_version
        with closing(
            docker.APIClient(version=version, timeout=_TIMEOUT_SECONDS, **self._environment)
        ) as client:
            yield client

    def dial(self) -> http.client.HTTPConnection:
        """
        Return a new connection to the engine, not opened yet.

        :raises EngineError: the scheme of the engine's URL is not supported.
        """
        environment = self._environment
        tls = environment.get("tls")
        url = parse_host(environment.get("base_url"), tls=bool(tls))
        if url.startswith(_UNIX):
            return _UnixConnection(f"/{url.removeprefix(_UNIX).lstrip('/')}")
        scheme, _, address = url.partition("://")
        host = address.partition("/")[0]
        if scheme == "https":
            context = _tls_context(tls)
            return http.client.HTTPSConnection(host, timeout=_CONNECT_SECONDS, context=context)
        if scheme == "http":
            return http.client.HTTPConnection(host, timeout=_CONNECT_SECONDS)
        raise EngineError(
            f"the engine must be at unix://... or tcp://..., got {url!r}: set TRAINING_DOCKER_HOST"
        )

    def close(self) -> None:
        """Close the connections; may be called twice. The next use opens new ones."""
        # No lock here: a thread that connects to an unresponsive engine holds it for a minute.
        api = self._api
        if api is not None:
            api.close()

    @property
    def _environment(self) -> dict[str, Any]:
        environment = dict[str, Any](kwargs_from_env())
        return environment | ({"base_url": self._docker_host} if self._docker_host else {})


class _NetworkClient(docker.APIClient):
    """A client for an engine behind a network, which drops idle connections after a timeout."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response: requests.Response = super().send(request, **options)
        except requests.Timeout:
            # What cut this connection without a sign may have cut the idle ones, too: each would cost the
            # next requests a timeout. Those in use are not closed.
            for adapter in self.adapters.values():
                adapter.close()
            raise
        return response


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket file."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _tls_context(tls: TLSConfig | None) -> ssl.SSLContext:
    """Return the same context as docker-py makes from this configuration."""
    context = ssl.create_default_context(cafile=tls.ca_cert if tls else None)
    if tls and tls.cert:
        context.load_cert_chain(*tls.cert)
    if tls and not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def post(
    client: docker.APIClient,
    path: str,
    body: dict[str, Any],
    *,
    params: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """
    Make a request for which docker-py has no function, or one that lacks an option.

    :raises docker.errors.APIError: the engine refused.
    """
    url = f"{client.base_url}/v{client.api_version}{path}"
    with client.post(url, json=body, params=params, headers=headers, timeout=_TIMEOUT_SECONDS) as response:
        raise_for_status(response)
        return dict(response.json())


def get(
    client: docker.APIClient, path: str, *, params: dict[str, str], timeout_seconds: float
) -> dict[str, Any]:
    """
    Make a request that must not take long.

    :raises docker.errors.APIError: the engine refused.
    """
    url = f"{client.base_url}/v{client.api_version}{path}"
    with client.get(url, params=params, timeout=timeout_seconds) as response:
        raise_for_status(response)
        # Podman answers with nothing to a request for what a container uses that does not run.
        return dict(response.json()) if response.content else {}


def _headers(client: docker.APIClient) -> Mapping[str, str]:
    with client.get(f"{client.base_url}/_ping", timeout=_TIMEOUT_SECONDS) as response:
        raise_for_status(response)
        return response.headers


def raise_for_status(response: requests.Response) -> None:
    """:raises docker.errors.APIError: the engine refused."""
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        create_api_error_from_http_exception(error)
