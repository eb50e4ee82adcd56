"""
The gRPC server: its port, its limits, its certificate.

This is the only module that the others import, and only where there is a port: gRPC takes 12 MB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import structlog
from starlette.types import ASGIApp

from training_api.errors import TrainingError
from training_service.access.decision import Caller
from training_service.api.middleware.body_limit import DEFAULT_LIMIT
from training_service.grpc_api.calls import MOST_CALLS, Calls
from training_service.telemetry.metrics import Metrics

#: For calls that are being answered when the service ends. REST has had its own seconds before.
_STOP_SECONDS = 2.0
_MINUTE = 60_000
_OPTIONS = (
    # Also of what a compressed message unpacks to.
    ("grpc.max_receive_message_length", DEFAULT_LIMIT),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.max_concurrent_streams", MOST_CALLS),
    # A port that is taken is an error, and no port that two share.
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 10 * _MINUTE),
    # Clients that are gone without a word.
    ("grpc.keepalive_time_ms", 2 * _MINUTE),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Pings of clients: more often, and the connection is closed.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _MINUTE),
    ("grpc.http2.max_ping_strikes", 2),
    ("grpc.keepalive_permit_without_calls", 0),
)

logger = structlog.get_logger(__name__)


class GrpcPortUnusable(TrainingError):
    """The gRPC server cannot be started as it is set."""


@asynccontextmanager
async def serving_grpc(
    app: ASGIApp,
    *,
    metrics: Metrics,
    identify: Callable[[str | None], Caller],
    host: str,
    port: int,
    certificate: str = "",
    key: str = "",
) -> AsyncIterator[int]:
    """
    Serve gRPC over ``app`` until the block ends; yield the port.

    :param identify: as ``Calls`` has it.
    :param port: 0: a free one.
    :param certificate: path of a PEM file, with the chain; empty, as is ``key``: plaintext.
    :raises GrpcPortUnusable: the port is taken, or the files cannot be read.
    """
    calls = Calls(app, metrics, identify)
    server = grpc.aio.server(handlers=[calls], options=_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = (
            server.add_secure_port(address, _credentials(certificate, key))
            if certificate
            else server.add_insecure_port(address)
        )
    except RuntimeError as error:
        raise GrpcPortUnusable(
            f"gRPC cannot listen on {address}: it is taken, is no address of this machine, or the certificate "
            f"and the key do not belong together; set TRAINING_GRPC_PORT to a free port or to 0 ({error})"
        ) from error
    await server.start()
    logger.info("gRPC", host=host, port=bound, tls=bool(certificate))
    try:
        yield bound
    finally:
        await server.stop(_STOP_SECONDS)
        await calls.settle(_STOP_SECONDS)


def _credentials(certificate: str, key: str) -> grpc.ServerCredentials:
    try:
        return grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(certificate).read_bytes())])
    except OSError as error:
        raise GrpcPortUnusable(
            f"TRAINING_GRPC_CERTIFICATE and TRAINING_GRPC_KEY must be PEM files that can be read: {error}"
        ) from error
