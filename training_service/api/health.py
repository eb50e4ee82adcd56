"""What operators of the service ask: is it well, and how busy is it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from container_engines.base import Engine
from training_api.errors import EngineError

_PLAIN_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}


def health_router(
    engine: Engine, registry: CollectorRegistry, version: str, loop_problem: Callable[[], str]
) -> APIRouter:
    """
    Return ``/health`` and ``/metrics``.

    :param loop_problem: what the loop that moves jobs fails with; empty: nothing.
    """
    router = APIRouter(tags=["operations"])

    @router.get("/health")
    def health() -> JSONResponse:
        """200 while jobs can run; 503 with the reason while the engine or the loop fails."""
        answer = {"status": "ok", "version": version}
        try:
            answer["engine"] = engine.ping()
        except EngineError as error:
            answer |= {"status": "degraded", "engine": str(error)}
        if problem := loop_problem():
            loop = f"no job moves: its last iteration ended in {problem}; the service's log has the trace"
            answer |= {"status": "degraded", "loop": loop}
        return JSONResponse(answer, status_code=200 if answer["status"] == "ok" else 503)

    @router.get("/metrics", response_class=Response, responses=_PLAIN_TEXT)
    def metrics(request: Request) -> Response:
        """Return metrics as Prometheus text, or as OpenMetrics with exemplars if that is accepted."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=media_type)

    return router
