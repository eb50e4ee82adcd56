"""The dashboard: an app of its own that Airflow's API server mounts at ``/training``."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from container_training.airflow_internals.login import REQUIRES_LOGIN
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID
from container_training.dashboard.live import stream
from container_training.dashboard.problems import answer_problem
from container_training.dashboard.routes import fleet as fleet_api
from container_training.dashboard.routes import job as job_api
from container_training.dashboard.routes import jobs as jobs_api
from container_training.dashboard.routes import log as log_api
from container_training.dashboard.routes import pages
from container_training.dashboard.shared import FEEDS, SERVICES
from training_api.errors import TrainingError

#: What a page may load and do: its own files and its own data, nothing else; of inline scripts the one for
#: the theme. Only Airflow may frame it.
_POLICY = (
    f"default-src 'none'; script-src 'self' '{pages.theme_digest()}'; style-src 'self'; img-src 'self' "
    "data:; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

events_router = APIRouter(prefix="/api", include_in_schema=False)


@events_router.get("/events")
async def events(conn_id: str = DEFAULT_CONN_ID) -> StreamingResponse:
    """
    Send an event when something changed, without saying what.

    Pages then request what their reader may see.
    """
    await asyncio.to_thread(SERVICES.get, conn_id)  # an unknown connection is said at once
    # X-Accel-Buffering: nginx would keep the lines until it has many.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(FEEDS.get(conn_id)), media_type="text/event-stream", headers=headers)


def make_app() -> FastAPI:
    """Return the app; without the pages that describe its routes, which would be open to all."""
    app = FastAPI(
        title="Training",
        dependencies=[REQUIRES_LOGIN],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    routers = (
        pages.router,
        jobs_api.router,
        job_api.router,
        log_api.router,
        fleet_api.router,
        events_router,
        job_api.name_router,  # takes what the others did not
    )
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(TrainingError, answer_problem)
    app.add_exception_handler(HTTPException, _answer_refusal)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    # Last, and so outermost: also what is refused has the headers.
    app.add_middleware(_Headers)
    return app


class _Headers:
    """Puts the headers of all answers, unless they have their own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    """Answer a refusal as a person can read it: a page for browsers, JSON for scripts."""
    assert isinstance(error, HTTPException)  # noqa: S101  # registered for it
    wants_page = "text/html" in request.headers.get("Accept", "")
    if error.status_code == 401 and wants_page:
        return pages.login_page(request)
    advice = {
        401: "Log in to Airflow, then open the page again.",
        403: "Somebody who may edit the DAG can do it; ask an administrator of Airflow for the right.",
    }
    problem = {"message": str(error.detail), "advice": advice.get(error.status_code, "")}
    return JSONResponse(problem, status_code=error.status_code, headers=error.headers)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # registered for it
    parts = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()]
    problem = {"message": "; ".join(parts), "advice": "Change the filter, or clear it."}
    return JSONResponse(problem, status_code=400)
