"""The ports of Vertex AI's clients, beside the one of HTTP: gRPC, and CONNECT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI

from training_api.errors import TrainingError
from training_service.access.decision import Caller
from training_service.front_door.certificates import CertificateFiles, ensure_certificates
from training_service.front_door.door import front_door
from training_service.settings import ServiceSettings
from training_service.telemetry.metrics import Metrics

#: Serves an app as long as its block runs; gives the port.
Serving = Callable[[FastAPI], AbstractAsyncContextManager[int]]


def vertex_ports(
    settings: ServiceSettings, metrics: Metrics, identify: Callable[[str | None], Caller]
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """
    Return what opens the ports that are set, over an app.

    gRPC behind CONNECT has the certificate for Vertex AI's names, unless it has one of its own.

    :param identify: as ``Calls`` has it.
    :raises CertificatesUnusable: that certificate cannot be written.
    :raises TrainingError: gRPC is wanted and not installed.
    """
    files = ensure_certificates(settings.certificates_folder) if settings.vertex_proxy_port else None
    serve = _grpc(settings, metrics, identify, files) if settings.grpc_port else None
    return partial(_opened, settings, files, serve)


@asynccontextmanager
async def _opened(
    settings: ServiceSettings, files: CertificateFiles | None, serve: Serving | None, app: FastAPI
) -> AsyncIterator[None]:
    async with AsyncExitStack() as ports:
        grpc_port = await ports.enter_async_context(serve(app)) if serve else 0
        if files:
            await ports.enter_async_context(
                front_door(
                    app,
                    host=settings.host,
                    port=settings.vertex_proxy_port,
                    certificate=files.certificate,
                    key=files.key,
                    grpc_port=grpc_port,
                )
            )
        yield


def _grpc(
    settings: ServiceSettings,
    metrics: Metrics,
    identify: Callable[[str | None], Caller],
    files: CertificateFiles | None,
) -> Serving:
    try:
        # Late: many services have no such port, it takes 0.1 s and 16 MB, and it is an extra.
        from training_service.grpc_api.server import serving_grpc
    except ImportError as error:
        raise TrainingError(
            f"TRAINING_GRPC_PORT is {settings.grpc_port}, and gRPC is not installed: "
            "pip install 'container-training-service[grpc]', or set it to 0"
        ) from error
    certificate, key = settings.grpc_certificate, settings.grpc_key
    if files and not certificate:
        certificate, key = str(files.certificate), str(files.key)
    return partial(
        serving_grpc,
        metrics=metrics,
        identify=identify,
        host=settings.host,
        port=settings.grpc_port,
        certificate=certificate,
        key=key,
    )
