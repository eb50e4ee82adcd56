"""Where a BuildKit on another machine is, and what it takes to ask it."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from training_api.errors import EngineUnavailable, InvalidRequest
from training_api.loopback import is_loopback

#: As in docker's ``DOCKER_CERT_PATH``.
CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")
_SECONDS = 20
#: What a client of HTTP/2 begins with, and no settings. Source: RFC 9113, 3.4 and 6.5.
_HTTP2_BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBuilder:
    """
    A BuildKit that is no part of an engine: its address, or its name in the user's buildx.

    :param url: ``tcp://HOST:PORT`` or ``unix://PATH`` of ``buildkitd``.
    :param cert_path: the folder of ``ca.pem``, ``cert.pem`` and ``key.pem``.
    :param name: of an instance that ``docker buildx create`` made, instead of ``url``.
    :raises InvalidRequest: both or neither of ``url`` and ``name``, another kind of address, an address on a
        network without certificates, or no certificates where they should be.
    """

    url: str = ""
    cert_path: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.name):
            raise InvalidRequest.of(
                "extra.builder_url", "must be given without builder_name, or builder_name without it"
            )
        if self.name:
            if self.name.startswith("-"):  # which would be an option of the command line
                raise InvalidRequest.of(
                    "extra.builder_name", f"must be the name of a builder of buildx, got {self.name!r}"
                )
            return
        address = urlsplit(self.url)
        if address.scheme == "unix" and address.path:
            return
        if address.scheme != "tcp" or not address.hostname or not _port_of(address):
            raise InvalidRequest.of(
                "extra.builder_url",
                f"must be tcp://HOST:PORT or unix://PATH of a buildkitd, got {self.url!r}",
            )
        if not self.cert_path and not is_loopback(address.netloc):
            raise InvalidRequest.of(
                "extra.builder_cert_path",
                f"must be given for {self.url!r}: without TLS anyone on the network may build there, and read secrets",
            )
        if self.cert_path and not all(file.is_file() for file in self.certificates):
            raise InvalidRequest.of(
                "extra.builder_cert_path",
                f"must be a folder with {', '.join(CERTIFICATES)}, got {self.cert_path!r}",
            )

    def __str__(self) -> str:
        return self.url or self.name

    @property
    def certificates(self) -> tuple[Path, ...]:
        """The files of the authority, the client's certificate and its key; none without TLS."""
        return tuple(Path(self.cert_path) / name for name in CERTIFICATES) if self.cert_path else ()

    def check_answers(self) -> None:
        """
        Connect to the builder and show it the certificate; a name cannot be checked.

        Buildx would wait for 20 seconds, and not say why.

        :raises EngineUnavailable: it does not answer, or one of the two does not trust the other.
        """
        address = urlsplit(self.url)
        try:
            if address.scheme == "unix":
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(_SECONDS)
                    connection.connect(address.path)
            elif address.scheme == "tcp":
                with socket.create_connection(
                    (address.hostname or "", address.port or 0), _SECONDS
                ) as connection:
                    if self.cert_path:
                        self._shake_hands(connection, address.hostname or "")
        except OSError as error:
            raise EngineUnavailable(
                f"no builder answers at {self.url}: {error}; start buildkitd there, and check the connection's "
                "builder_url and builder_cert_path"
            ) from error

    def _shake_hands(self, connection: socket.socket, host: str) -> None:
        authority, certificate, key = self.certificates
        context = ssl.create_default_context(cafile=authority)
        context.set_alpn_protocols(["h2"])
        context.load_cert_chain(certificate, key)
        with context.wrap_socket(connection, server_hostname=host) as secure:
            # With TLS 1.3 a server refuses a certificate after the handshake, instead of the first answer.
            with suppress(OSError):  # reading says why
                secure.sendall(_HTTP2_BEGIN)
            if not secure.recv(1):
                raise ConnectionResetError("it closed the connection; is it a buildkitd?")


def _port_of(address: SplitResult) -> int | None:
    try:
        return address.port
    except ValueError:
        return None
