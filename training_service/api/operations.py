"""What operators of the service ask: is it well, and how busy is it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from container_engines.base import Engine
from training_api.errors import EngineError

_PLAIN_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}


def operations_router(engine: Engine, registry: CollectorRegistry, version: str) -> APIRouter:
    """Return ``/health`` and ``/metrics``."""
    router = APIRouter(tags=["operations"])

    @router.get("/health")
    def health() -> JSONResponse:
        """200 while jobs can run; 503, with the reason, while the engine does not answer."""
        try:
            found = engine.ping()
        except EngineError as error:
            return JSONResponse(
                {"status": "degraded", "version": version, "engine": str(error)}, status_code=503
            )
        return JSONResponse({"status": "ok", "version": version, "engine": found})

    @router.get("/metrics", response_class=Response, responses=_PLAIN_TEXT)
    def metrics(request: Request) -> Response:
        """Metrics in Prometheus' text form, or, with exemplars, in OpenMetrics' for those who accept it."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=media_type)

    return router
