"""The ports of Vertex AI's clients, beside the one of HTTP: gRPC, and CONNECT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from training_api.errors import TrainingError
from training_service.front_door.certificates import CertificateFiles, ensure_certificates
from training_service.settings import ServiceSettings
from training_service.telemetry.metrics import Metrics


def vertex_ports(
    settings: ServiceSettings, metrics: Metrics
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """
    Return what opens the ports that are set, over an app.

    gRPC behind CONNECT has the certificate for Vertex AI's names, unless it has one of its own.

    :raises CertificatesUnusable: that certificate cannot be written.
    """
    files = ensure_certificates(settings.certificates_folder) if settings.vertex_proxy_port else None
    return partial(_opened, settings, metrics, files)


@asynccontextmanager
async def _opened(
    settings: ServiceSettings, metrics: Metrics, files: CertificateFiles | None, app: FastAPI
) -> AsyncIterator[None]:
    async with AsyncExitStack() as ports:
        grpc: tuple[str, int] | None = None
        if settings.grpc_port:
            bound = await ports.enter_async_context(_grpc(settings, metrics, files, app))
            grpc = settings.host, bound
        if files:
            # Late, as gRPC is: most services have no such port.
            from training_service.front_door.door import front_door

            await ports.enter_async_context(
                front_door(
                    app,
                    host=settings.host,
                    port=settings.vertex_proxy_port,
                    certificate=files.certificate,
                    key=files.key,
                    grpc=grpc,
                )
            )
        yield


def _grpc(
    settings: ServiceSettings, metrics: Metrics, files: CertificateFiles | None, app: FastAPI
) -> AbstractAsyncContextManager[int]:
    try:
        # It takes 0.1 s and 16 MB, and is an extra.
        from training_service.grpc_api.server import serving_grpc
    except ImportError as error:
        raise TrainingError(
            f"TRAINING_GRPC_PORT is {settings.grpc_port}, and gRPC is not installed: "
            "pip install 'container-training-service[grpc]', or set it to 0"
        ) from error
    own: tuple[str | Path, str | Path] = settings.grpc_certificate, settings.grpc_key
    certificate, key = (files.certificate, files.key) if files and not settings.grpc_certificate else own
    return serving_grpc(
        app,
        metrics,
        host=settings.host,
        port=settings.grpc_port,
        certificate=str(certificate),
        key=str(key),
    )
