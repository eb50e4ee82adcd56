"""
Each error once: code, HTTP status and text, in the API's JSON form.

``google.rpc.Status``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_snake
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route

from training_api.errors import BrokenRules, FieldViolation, InvalidFilter, ServiceError

logger = structlog.get_logger(__name__)

#: Canonical names by HTTP status. Source: google.rpc.Code.
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_NO_BODY = (
    "the body cannot be read; it must be JSON in UTF-8, with numbers of at most 4300 digits, "
    "in which lists and objects are not nested hundreds deep"
)
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


def error_response(
    code: int, message: str, violations: Sequence[FieldViolation] = (), status: str = ""
) -> JSONResponse:
    """
    Return the API's error body.

    :param violations: become a ``google.rpc.BadRequest`` detail.
    :param status: canonical name; by default the usual one of ``code``.
    """
    status = status or _STATUS.get(code, "UNKNOWN")
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    if violations:
        fields = [{"field": v.field, "description": v.description} for v in violations]
        error["details"] = [{"@type": _BAD_REQUEST, "fieldViolations": fields}]
    return JSONResponse({"error": error}, status_code=code, headers=challenge(code))


def challenge(code: int) -> dict[str, str]:
    """Return the headers of an error: a 401 says how to authenticate (RFC 9110)."""
    return {"WWW-Authenticate": "Bearer"} if code == 401 else {}


def install_error_handlers(app: FastAPI) -> None:
    """Have ``app`` answer every error in the API's form."""

    @app.exception_handler(ServiceError)
    def _service(_: Request, error: ServiceError) -> JSONResponse:
        return error_response(error.code, str(error), status=error.status)

    @app.exception_handler(BrokenRules)
    def _invalid(_: Request, error: BrokenRules) -> JSONResponse:
        return error_response(400, f"{error.subject} is invalid: {error}", error.violations)

    @app.exception_handler(InvalidFilter)
    def _filter(_: Request, error: InvalidFilter) -> JSONResponse:
        return error_response(400, str(error), [FieldViolation(field="filter", description=str(error))])

    @app.exception_handler(RequestValidationError)
    def _request(request: Request, error: RequestValidationError) -> JSONResponse:
        violations = [_violation(request, item) for item in error.errors()]
        text = "; ".join(violation.description for violation in violations)
        return error_response(400, f"Invalid JSON payload received. {text}", violations)

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> JSONResponse:
        # FastAPI's own, for whatever its reading of a body raised.
        detail = _NO_BODY if error.__cause__ and error.status_code == 400 else error.detail
        message = f"{request.method} {request.url.path}: {detail}"
        response = error_response(error.status_code, message)
        if error.status_code == 405:
            response.headers["Allow"] = ", ".join(_methods_of(request))
        return response

    @app.exception_handler(ClientDisconnect)
    def _gone(_: Request, __: ClientDisconnect) -> Response:
        # Nobody gets this answer, and nobody has made a mistake that the log should show.
        return Response(status_code=400)

    @app.exception_handler(Exception)
    def _bug(request: Request, error: Exception) -> JSONResponse:
        return error_response(500, note_bug(request.url.path, error))


def note_bug(path: str, error: Exception) -> str:
    """
    Log a mistake of this service.

    :return: what the client is told: an id that finds it in the log.
    """
    request_id = secrets.token_hex(8)
    logger.error("request failed", path=path, request_id=request_id, exc_info=error)
    return (
        f"Internal error encountered; the service's log has the details, under the request id {request_id}."
    )


def _methods_of(request: Request) -> list[str]:
    """
    Return the methods of the path.

    Each method is a separate route, and Starlette names the methods of one route only.
    """
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    # JOB:cancel also fits the path of a job; the longer one is meant.
    path = max((route.path for route in matching), key=len, default="")
    return sorted({method for route in matching if route.path == path for method in route.methods or ()})


def _violation(request: Request, item: Any) -> FieldViolation:
    """
    Return what pydantic found, in the real API's words if they are known.

    Known are those of unknown fields, captured widely.
    """
    where, *path = item["loc"]
    if item["type"] == "extra_forbidden" and where == "body":
        *parents, name = path
        # The body of jobs.create and jobs.patch is the request's field "job"; elsewhere it is the request
        # itself.
        root = ["job"] if request.url.path.endswith("/jobs") or request.method == "PATCH" else []
        place = f" at '{_proto_path([*root, *parents])}'" if root or parents else ""
        return FieldViolation(
            field=_json_path(path), description=f'Unknown name "{name}"{place}: Cannot find field.'
        )
    field = _json_path(path or [where])
    return FieldViolation(field=field, description=f"{field}: {item['msg']}; got {_shown(item.get('input'))}")


def _json_path(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _proto_path(path: Sequence[str | int]) -> str:
    return _json_path([part if isinstance(part, int) else to_snake(part) for part in path])


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
