"""What a client says first in TLS, read without an answer to it."""

from __future__ import annotations

import ssl
from pathlib import Path

#: In the order of the server's preference: who takes both is asked by HTTP/1.1.
_REST, _GRPC = "http/1.1", "h2"


def peeking_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context with which :class:`ClientHello` reads; no client ever sees it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols([_REST, _GRPC])
    return context


class ClientHello:
    """
    The first bytes of one connection.

    OpenSSL reads them and chooses a protocol (ALPN); its answer is thrown away. The caller gives the same
    bytes to the server that the client meant.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._answer = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._server = context.wrap_bio(self._incoming, self._answer, server_side=True)

    def feed(self, data: bytes) -> bool:
        """
        Take more bytes; return whether they are enough.

        :raises ssl.SSLError: these are not the first words of TLS, or this service cannot answer them.
        """
        self._incoming.write(data)
        try:
            self._server.do_handshake()
        except ssl.SSLWantReadError:
            return self._answer.pending > 0
        return True

    @property
    def wants_grpc(self) -> bool:
        """Whether the client speaks HTTP/2 and nothing else, as clients of gRPC do."""
        return self._server.selected_alpn_protocol() == _GRPC
