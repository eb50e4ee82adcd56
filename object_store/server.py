"""The store as a process: its folder, its HTTP server, its end."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import socket
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from object_store.api.access import ContainerAccess
from object_store.api.metrics import Metrics
from object_store.api.policies import BucketPolicies
from object_store.app import App
from object_store.store import Store
from object_store.takeover import take_over

logger = logging.getLogger(__name__)

_HEADER_SECONDS = 20.0
#: With what comes together with the end of the headers, which is up to 64 KiB of the body.
_HEADER_BYTES = 128 * 1024
_MOST_CONNECTIONS = 1024
#: That one address has of them at most, but for those of the machine's users: no container takes all.
MOST_OF_ONE = 128
_OWN_ADDRESSES = frozenset({"127.0.0.1", "::1"})
#: From linux/in.h; Python has no name for it.
_IP_FREEBIND = 15
#: How long requests that are being answered may take after a signal.
_LEAVE_SECONDS = 3
_EXPIRE_SECONDS = 3600.0
_TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    What a store is told.

    :param root: its folder.
    :param training_url: the training service, which keeps the policies of buckets and knows what jobs may
        do; ``None``: there are no policies, and containers may do all with objects.
    :param hosts: names under which clients reach it, beside ``localhost`` and addresses.
    :param containers_host: a second address to listen on, for containers; ``None``: nobody is one.
    :param clients: one more address to listen on, with the network of users: who comes there from elsewhere
        is a container, too.
    :param floor_bytes: of free disk, below which nothing is written.
    """

    root: Path
    host: str = "127.0.0.1"
    port: int = 9023
    training_url: str | None = None
    hosts: Collection[str] = ()
    containers_host: str | None = None
    clients: IPv4Interface | IPv6Interface | None = None
    floor_bytes: int = 0


class FolderInUse(Exception):
    """Another object store has the folder."""


def serve(settings: Settings) -> None:
    """
    Serve until SIGTERM or SIGINT.

    :raises FolderInUse: another process serves this folder.
    :raises ValueError: a newer version, or the emulator of an older one, left what cannot be read.
    """
    with _hold(settings.root):
        store = Store(settings.root, settings.floor_bytes)
        try:
            take_over(store, settings.root)
            _serve(store, settings)
        finally:
            store.close()


def _serve(store: Store, settings: Settings) -> None:
    policies = BucketPolicies(settings.training_url)
    app = App(
        store,
        policies,
        Metrics(store, settings.floor_bytes),
        hosts=settings.hosts,
        access=ContainerAccess(settings.training_url),
        containers_host=settings.containers_host,
        clients=settings.clients,
    )
    threading.Thread(target=_tidy, args=(store, app), name="tidy", daemon=True).start()
    of_clients = str(settings.clients.ip) if settings.clients else None
    hosts = [host for host in (settings.host, settings.containers_host, of_clients) if host]
    listeners = [listen(host, settings.port) for host in hosts]
    logger.info("object store on %s:%d, data in %s", " and ".join(hosts), settings.port, settings.root)
    server_of(app).run(listeners)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0: a free one. :raises OSError: the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":
        # The engine's bridge may come later than the store.
        listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def server_of(app: App) -> uvicorn.Server:
    """Return a server that is to be run, with its listeners."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=512,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=_LEAVE_SECONDS,
    )
    return _Server(config)


def _tidy(store: Store, app: App) -> None:
    """Remove what a kill has left, and every hour the uploads that nobody goes on with."""
    wait = threading.Event()
    while True:
        try:
            if removed := store.sweep() + app.uploads.expire():
                logger.info("removed %d files and uploads that nobody needs", removed)
        except Exception:
            logger.exception("could not remove what nobody needs; next attempt in an hour")
        wait.wait(_EXPIRE_SECONDS)


class _Server(uvicorn.Server):
    """uvicorn's server, which ends with status 0 after a signal, and wakes twice a second."""

    async def main_loop(self) -> None:
        """Return when the process has to end."""
        counter = 0
        # uvicorn counts tenths of a second.
        while not await self.on_tick(counter):
            counter += _TICKS
            await asyncio.sleep(_TICKS / 10)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; the second one ends requests at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which a client cannot hold up with headers that do not end."""

    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        others = (each.client for each in self.connections if isinstance(each, _Protocol))
        of_host = sum(1 for client in others if client and client[0] == host)
        is_bounded = host not in _OWN_ADDRESSES and of_host > MOST_OF_ONE
        if is_bounded or len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        if self._deadline is not None:
            self._header_bytes += len(data)
            if self._header_bytes > _HEADER_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._header_bytes = 0
            self._deadline = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


@contextmanager
def _hold(root: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock ends with the process, however it ends."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(
                f"another object store serves {root}; stop it, or choose another --root"
            ) from error
        yield
