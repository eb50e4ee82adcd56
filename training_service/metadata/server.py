"""
The metadata endpoint as a server.

It listens on an address that containers reach and other machines do not.
"""

from __future__ import annotations

import asyncio
import socket
import threading

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

logger = structlog.get_logger(__name__)

_STOP_SECONDS = 5.0
#: Of one container, and of all: each takes a descriptor. Clients ask one question a connection.
MOST_OF_ONE, _MOST = 16, 512
#: After that a connection ends, whatever was said on it; an answer takes milliseconds.
_CONNECTION_SECONDS = 20.0


class MetadataServer:
    """
    Serves ``app`` from a thread.

    :param host: the gateway of the engine's bridge, or a name of it; where there is no such address, nothing
        can listen.
    :param interface: by which callers must come, by its name; needs Linux 5.7. Empty: any.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, *, interface: str = "") -> None:
        self._host, self._port, self._interface = host, port, interface
        config = uvicorn.Config(
            app,
            http=_BoundedProtocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # the address of the connection is who the caller is
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._has_failed = False

    def start(self) -> None:
        """Listen and serve. :raises OSError: the address is not this machine's, or taken."""
        try:
            listener = self._listen()
        except OSError as error:
            by = f" of interface {self._interface}" if self._interface else ""
            raise OSError(
                error.errno,
                f"the metadata endpoint cannot listen on {self._host}:{self._port}{by}: {error.strerror}",
            ) from error
        self._port = listener.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="metadata", daemon=True
        )
        self._thread.start()

    def _listen(self) -> socket.socket:
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._interface:
                # Before it listens, so that no other caller gets in.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self._interface.encode())
            listener.bind((self._host, self._port))
            listener.listen()
        except OSError:
            listener.close()
            raise
        return listener

    def keep_trying(self) -> None:
        """
        Listen and serve, unless that is done.

        Call it again and again where another service may still have the address.
        """
        if self._thread is not None:
            return
        try:
            self.start()
        except OSError as error:
            if not self._has_failed:
                logger.error("trying again", reason=str(error))
            self._has_failed = True

    def stop(self) -> None:
        """End, and wait for it."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    @property
    def port(self) -> int:
        """Where it listens; known once it does."""
        return self._port


class _BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn chooses it at import
    """uvicorn's protocol, of which no container gets more than its share."""

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        of_host = sum(1 for each in self.connections if each.client and each.client[0] == host)
        if of_host > MOST_OF_ONE or len(self.connections) > _MOST:
            transport.abort()
            return
        self._end = self.loop.call_later(_CONNECTION_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)


def metadata_environment(host: str, port: int) -> dict[str, str]:
    """
    Return what containers get so that Google's libraries and gcloud find the endpoint.

    Sources: google.auth.environment_vars (GCE_METADATA_HOST; GCE_METADATA_IP, which is asked first whether
    there is one); gcloud's gce_read (GCE_METADATA_ROOT).
    """
    address = f"{host}:{port}"
    return {"GCE_METADATA_HOST": address, "GCE_METADATA_ROOT": address, "GCE_METADATA_IP": address}
