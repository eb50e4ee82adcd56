"""
The rules of ``egress.py`` on a Docker Engine's machine.

The engine has no request for such rules, and the service is not always root, or on that machine. So a
container that lives for a moment, in the machine's network and with the right to change it, runs ``nft``: the
machine's own, because its image is empty. The rules name the interfaces of all networks that the service will
ever make. They are put in place once, not for each job, and outlive the service and the engine.
"""

from __future__ import annotations

import io
import socket
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network

import structlog
from docker.types import Mount

from container_engines.docker.client import DockerConnection
from container_engines.docker.driver import DockerDriver
from container_engines.docker.errors import engine_errors
from container_engines.docker.log_files import LOG_MEGABYTES
from container_engines.egress import (
    Egress,
    EgressMode,
    Endpoint,
    IPNetwork,
    bridge_of,
    mark_of,
    ruleset,
)
from container_engines.labels import SERVICE
from training_api.errors import EngineBusy, EngineError, EngineUnavailable

#: Has no programs: its folders are links into the machine's. The tag changes with its content.
_IMAGE, _TAG = "localhost/container-training-egress", "1"
_MACHINE = "/machine"
_FOLDERS = ("bin", "lib", "lib32", "lib64", "libx32", "nix", "sbin", "usr")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
_NO_SERVER = "192.0.2.1"
_SHOWN_CHARACTERS = 500
#: Attempts in a row that a busy engine refuses before jobs start without the rules, where they may.
_ATTEMPTS = 4

logger = structlog.get_logger(__name__)


class PacketFilter:
    """
    Keeps the rules for the job networks of one service in place; safe for threads.

    :param connection: leads to the engine.
    :param service_id: each service has its own rules.
    """

    def __init__(self, connection: DockerConnection, service_id: str, egress: Egress) -> None:
        self._connection = connection
        #: Says whose the container is, should a kill leave it behind.
        self._labels = {SERVICE: service_id}
        self._mark = mark_of(service_id)
        self._egress = egress
        self._lock = threading.Lock()
        #: Of the engine, when the rules were put in place.
        self._start: str | None = None
        self._refused = 0
        #: Of endpoints that are names, as they were found last.
        self._addresses: dict[str, Sequence[str]] = {}

    @property
    def dns(self) -> Sequence[str]:
        """Name servers of containers; empty: the engine's."""
        # Otherwise the engine asks for them, and so carries out what cannot leave. This one does not exist.
        return [_NO_SERVER] if self._egress.mode is EgressMode.NONE else []

    @property
    def hosts(self) -> Mapping[str, str]:
        """Addresses of endpoints that containers cannot look up."""
        is_needed = self._egress.mode is EgressMode.NONE
        return {name: found[0] for name, found in self._addresses.copy().items()} if is_needed else {}

    def bridge_of(self, job_uid: str) -> str:
        """Return the name that the interface of a job's network must have."""
        return bridge_of(self._mark, job_uid)

    def ensure(self, start: str) -> None:
        """
        Put the rules in place, unless that was done since ``start`` of the engine.

        :param start: another one after each start of the engine, with which the machine may have started.
        :raises EngineBusy: they cannot be had now; also in mode ``open``, the first times.
        :raises EngineError: they cannot be had. Where the mode is ``open``, a line of the log says so.
        """
        with self._lock:
            if self._start == start:
                return
            try:
                self._put_in_place()
            except EngineUnavailable:
                raise
            except EngineBusy as error:
                self._refused += 1
                if self._refused < _ATTEMPTS:
                    raise
                self._tell(error, EngineBusy)
                return
            except EngineError as error:
                self._tell(error, EngineError)
            self._start, self._refused = start, 0

    def renew(self) -> None:
        """Have the next ``ensure`` put the rules in place again, whatever became of them."""
        with self._lock:
            self._start = None

    def _tell(self, error: EngineError, kind: type[EngineError]) -> None:
        message = (
            f"TRAINING_EGRESS={self._egress.mode} cannot be enforced on the engine's machine: {error}; it needs the "
            "program nft there (package nftables) and Linux 5.10 or newer"
        )
        if self._egress.mode is not EgressMode.OPEN:
            raise kind(f"{message}; TRAINING_EGRESS=open starts jobs without it") from error
        logger.warning("jobs reach link-local addresses and the engine's machine", reason=message)

    def _put_in_place(self) -> None:
        rules = ruleset(self._mark, self._egress.mode, list(self._reachable()))
        client = self._connection.client
        driver, name = DockerDriver(client, self._connection.kind), f"ct-egress-{self._mark}"
        if driver.find_image(f"{_IMAGE}:{_TAG}") is None:
            with engine_errors(f"make the image {_IMAGE}"):
                client.import_image_from_data(_links(), repository=_IMAGE, tag=_TAG)
        driver.remove(name)  # a service was killed meanwhile
        try:
            with engine_errors("run nft on the engine's machine"):
                client.create_container(
                    f"{_IMAGE}:{_TAG}",
                    name=name,
                    command=["nft", rules],
                    environment={"PATH": _PATH},
                    labels=self._labels,
                    host_config=client.create_host_config(
                        network_mode="host",
                        userns_mode="host",
                        cap_drop=["ALL"],
                        cap_add=["NET_ADMIN"],
                        # SELinux lets no confined container read the machine's files.
                        security_opt=["no-new-privileges:true", "label=disable"],
                        read_only=True,
                        log_config=self._connection.kind.log_files(LOG_MEGABYTES),
                        mounts=[Mount(_MACHINE, "/", type="bind", read_only=True)],
                    ),
                )
                client.start(name)
                status = client.wait(name)["StatusCode"]
            if status:
                said = " ".join(line.text for line in driver.read_logs(name, follow=False))
                raise EngineError(f"nft ended with {status}: {said[:_SHOWN_CHARACTERS]}")
        finally:
            driver.remove(name)

    def _reachable(self) -> Iterator[tuple[IPNetwork | None, int]]:
        """Look names up, here: the machine's own look-up may not be ready yet, or not there."""
        for endpoint in self._egress.endpoints:
            if endpoint.is_machine:
                yield None, endpoint.port
            elif endpoint.network is not None:
                yield endpoint.network, endpoint.port
            else:
                yield from ((ip_network(address), endpoint.port) for address in self._look_up(endpoint))

    def _look_up(self, endpoint: Endpoint) -> Sequence[str]:
        try:
            found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
            self._addresses[endpoint.host] = [
                *dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found)
            ]
        except OSError as error:
            known = endpoint.host in self._addresses
            logger.warning(
                "the name of an endpoint of jobs cannot be looked up here",
                host=endpoint.host,
                reason=str(error),
                effect="its address of before stays open" if known else "jobs do not reach it",
            )
        return self._addresses.get(endpoint.host, ())


def _links() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for folder in _FOLDERS:
            link = tarfile.TarInfo(folder)
            link.type, link.linkname = tarfile.SYMTYPE, f"{_MACHINE.lstrip('/')}/{folder}"
            archive.addfile(link)
    return content.getvalue()
