"""
The metadata endpoint of jobs: the HTTP side of Compute Engine's protocol.

A caller is known by the address of its container, which no other container can take: raw sockets and the
setting of addresses are among the capabilities that jobs do not have. Whoever is not a job's container learns
nothing.
"""

from __future__ import annotations

import json

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from training_service.metadata.callers import Caller, CallerUnknown, FindCaller, InvalidAudience
from training_service.metadata.tree import JobIdentity, as_json, as_text, find, metadata_tree

_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_ROOT = "computeMetadata/v1"
_ACCOUNTS = "instance/service-accounts"

logger = structlog.get_logger(__name__)


def create_metadata_app(find_caller: FindCaller) -> Starlette:
    """Return the app; it has one route, as the protocol is a tree."""

    def get(request: Request) -> Response:
        address = request.client.host if request.client else ""
        try:
            caller = find_caller(address)
            if caller is None:
                logger.warning("metadata is for containers of jobs alone", address=address)
                return PlainTextResponse("not a container of a job\n", status_code=403)
            return _answer(request, request.path_params["path"], caller)
        except CallerUnknown as error:
            # Google's libraries ask again after this status.
            return _error(503, str(error))

    return Starlette(routes=[Route("/{path:path}", get, methods=["GET"])])


def _answer(request: Request, path: str, caller: Caller) -> Response:
    if path.strip("/") in ("", "computeMetadata"):
        # How clients find out whether they are on a machine with metadata; the original wants no header here.
        return _text("v1/\n" if path.strip("/") else "computeMetadata/\n")
    if request.headers.get("metadata-flavor", "").lower() != "google":
        return _error(403, "Missing Metadata-Flavor:Google header.")
    if "x-forwarded-for" in request.headers:
        return _error(403, "A request that came through a proxy is refused.")
    root, _, rest = f"{path}/".partition(f"{_ROOT}/")
    if root or not path.startswith(_ROOT):
        return _error(404, f"{path} not found")
    rest = rest.strip("/")
    if live := _live_value(request, rest, caller):
        return live
    return _value(request, path, rest, caller.identity)


def _value(request: Request, path: str, rest: str, identity: JobIdentity) -> Response:
    found = find(metadata_tree(identity), rest)
    if found is None:
        return _error(404, f"{path} not found")
    query = request.query_params
    is_recursive = query.get("recursive", "").lower() == "true"
    if query.get("alt") == "json" or (is_recursive and query.get("alt", "json") == "json"):
        return Response(as_json(found), media_type="application/json", headers=_FLAVOR)
    if isinstance(found, dict) and not path.endswith("/"):
        return RedirectResponse(f"/{path}/", status_code=301, headers=_FLAVOR)
    return _text(as_text(found, is_account=rest.startswith(f"{_ACCOUNTS}/") and isinstance(found, dict)))


def _live_value(request: Request, rest: str, caller: Caller) -> Response | None:
    """Return a token, if ``rest`` asks for one of the job's own account."""
    folder, _, kind = rest.rpartition("/")
    if folder not in (f"{_ACCOUNTS}/default", f"{_ACCOUNTS}/{caller.identity.email}"):
        return None
    headers = _FLAVOR | {"Cache-Control": "no-store"}
    if kind == "token":
        token = caller.access_token()
        body = {"access_token": token.value, "expires_in": token.seconds, "token_type": "Bearer"}
        return Response(json.dumps(body), media_type="application/json", headers=headers)
    if kind == "identity":
        try:
            return _text(caller.identity_token(request.query_params.get("audience", "")), headers)
        except InvalidAudience as error:
            return _error(400, str(error))
    return None


def _text(content: str, headers: dict[str, str] | None = None) -> Response:
    return Response(content, media_type="application/text", headers=headers or _FLAVOR)


def _error(status: int, message: str) -> Response:
    return PlainTextResponse(f"{message}\n", status_code=status, headers=_FLAVOR)
