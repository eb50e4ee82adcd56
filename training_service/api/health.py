"""What operators of the service ask: is it well, and how busy is it."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from training_service.api.routes import Routes
from training_service.use_cases.health import ENGINE, LOOP, Health, Part, Readiness

_PLAIN_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}


def health_router(health: Health, registry: CollectorRegistry, version: str) -> Routes:
    """Return ``/health``, ``/health/live``, ``/health/ready`` and ``/metrics``."""
    router = Routes(tags=["operations"])

    @router.get("/health")
    def overview() -> JSONResponse:
        """200 while jobs can run; 503 with the reason while a part of the service fails."""
        found = health.readiness()
        engine, loop = found.parts[ENGINE], found.parts[LOOP]
        answer = {"status": _status(found.ok), "version": version, "role": health.role.value}
        answer["engine"] = found.engine_version if engine.ok else engine.reason
        if not loop.ok:
            answer["loop"] = loop.reason
        return JSONResponse(answer | _parts(found), status_code=_code(found.ok))

    @router.get("/health/live")
    def live() -> JSONResponse:
        """200 while the loop that moves jobs goes round; 503: restart the service."""
        part = health.liveness()
        return JSONResponse({"status": _status(part.ok)} | _reason(part), status_code=_code(part.ok))

    @router.get("/health/ready")
    def ready() -> JSONResponse:
        """200 while store, engine, disk and loop are well; 503 with a reason for each that is not."""
        found = health.readiness()
        return JSONResponse({"status": _status(found.ok)} | _parts(found), status_code=_code(found.ok))

    @router.get("/metrics", response_class=Response, responses=_PLAIN_TEXT)
    def metrics(request: Request) -> Response:
        """Return metrics as Prometheus text, or as OpenMetrics with exemplars if that is accepted."""
        try:
            encode, media_type = choose_encoder(request.headers.get("accept", ""))
        except (TypeError, ValueError):  # a version that is none, such as "version=a.b.c"
            encode, media_type = choose_encoder("")
        return Response(encode(registry), media_type=media_type)

    return router


def _status(ok: bool) -> str:
    return "ok" if ok else "degraded"


def _code(ok: bool) -> int:
    return 200 if ok else 503


def _parts(found: Readiness) -> dict[str, Any]:
    return {"parts": {name: {"ok": part.ok} | _reason(part) for name, part in found.parts.items()}}


def _reason(part: Part) -> dict[str, str]:
    return {"reason": part.reason} if part.reason else {}
