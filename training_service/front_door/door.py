"""How clients of Vertex AI that know nothing of this service reach it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from starlette.types import ASGIApp

from training_service.front_door.client_hello import peeking_context
from training_service.front_door.connect_port import ConnectPort
from training_service.front_door.rest import rest_server

logger = structlog.get_logger(__name__)


@asynccontextmanager
async def front_door(
    app: ASGIApp, *, host: str, port: int, certificate: Path, key: Path, grpc: tuple[str, int] | None
) -> AsyncIterator[int]:
    """
    Let clients in by CONNECT until the block ends; the port.

    :param app: what answers REST.
    :param host: address to listen on.
    :param port: its port; 0: a free one.
    :param certificate: PEM file with the server's certificate, and those between it and its authority.
    :param grpc: where the server of gRPC listens, with TLS; ``None``: there is none.
    :raises OSError: the address is not this machine's, or taken.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    async with rest_server(app, context) as rest:
        door = ConnectPort(rest=rest, grpc=grpc, context=peeking_context(certificate, key))
        try:
            bound = await door.start(host, port)
        except OSError as error:
            raise OSError(
                error.errno, f"TRAINING_VERTEX_PROXY_PORT: cannot listen on {host}:{port}: {error.strerror}"
            ) from error
        logger.info("clients of Vertex AI are let in by CONNECT", host=host, port=bound)
        try:
            yield bound
        finally:
            await door.stop()
