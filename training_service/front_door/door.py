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
    app: ASGIApp, *, host: str, port: int, certificate: Path, key: Path, grpc_port: int
) -> AsyncIterator[int]:
    """
    Let clients in by CONNECT until the block ends; the port.

    :param app: what answers REST.
    :param host: address to listen on.
    :param port: its port; 0: a free one.
    :param certificate: PEM file with the server's certificate, and those between it and its authority.
    :param grpc_port: where the server of gRPC listens on the same address, with TLS; 0: there is none.
    :raises OSError: the address is not this machine's, or taken.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    async with rest_server(app, context) as rest:
        grpc = (reached_at(host), grpc_port) if grpc_port else None
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


def reached_at(host: str) -> str:
    """Return by which address this machine reaches what listens on ``host``. Pure."""
    all_addresses = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared with, never bound to
    return all_addresses.get(host, host)
