"""
The metadata endpoint of jobs: the HTTP side of Compute Engine's protocol.

A caller is known by the address of its container, which no other container can take: raw sockets and the
setting of addresses are among the capabilities that jobs do not have. Whoever is not a job's container learns
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import structlog
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from training_service.access.identity import ACCOUNT_AUDIENCE, LIFETIME, IdentityTokens
from training_service.access.registry_tokens import SERVICE as REGISTRY_AUDIENCE
from training_service.metadata.tree import JobIdentity, as_json, as_text, find, metadata_tree

_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_ROOT = "computeMetadata/v1"
_ACCOUNTS = "instance/service-accounts"
_MAX_AUDIENCE_LENGTH = 1024
#: A job may name the audience of a token that says who it is; the tokens of these also say what it may do.
_RESERVED = frozenset({REGISTRY_AUDIENCE, ACCOUNT_AUDIENCE})

#: From a container's address to the job that it is of; ``None``: there is no such job.
FindIdentity = Callable[[str], JobIdentity | None]

logger = structlog.get_logger(__name__)


def create_metadata_app(find_identity: FindIdentity, tokens: IdentityTokens) -> FastAPI:
    """Return the app; it has one route, as the protocol is a tree."""
    app = FastAPI(title="Metadata of jobs", openapi_url=None)

    @app.get("/{path:path}")
    def get(request: Request, path: str) -> Response:
        address = request.client.host if request.client else ""
        identity = find_identity(address)
        if identity is None:
            logger.warning("metadata is for containers of jobs alone", address=address)
            return PlainTextResponse("not a container of a job\n", status_code=403)
        return _answer(request, path, identity, tokens)

    return app


def _answer(request: Request, path: str, identity: JobIdentity, tokens: IdentityTokens) -> Response:
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
    if live := _live_value(request, rest, identity, tokens):
        return live
    return _value(request, path, rest, identity)


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


def _live_value(
    request: Request, rest: str, identity: JobIdentity, tokens: IdentityTokens
) -> Response | None:
    """Return a token, if ``rest`` asks for one of the job's own account."""
    folder, _, kind = rest.rpartition("/")
    if folder not in (f"{_ACCOUNTS}/default", f"{_ACCOUNTS}/{identity.email}"):
        return None
    headers = _FLAVOR | {"Cache-Control": "no-store"}
    if kind == "token":
        body = {
            "access_token": tokens.issue(identity.principal),
            "expires_in": round(LIFETIME.total_seconds()),
            "token_type": "Bearer",
        }
        return Response(json.dumps(body), media_type="application/json", headers=headers)
    if kind == "identity":
        audience = request.query_params.get("audience", "")
        if not audience or len(audience) > _MAX_AUDIENCE_LENGTH:
            return _error(400, "non-empty audience parameter required")
        if audience in _RESERVED:
            return _error(400, "this audience is reserved: its tokens say more than who their bearer is")
        token = tokens.issue(identity.principal, audience=audience, email=identity.email, azp=identity.email)
        return _text(token, headers)
    return None


def _text(content: str, headers: dict[str, str] | None = None) -> Response:
    return Response(content, media_type="application/text", headers=headers or _FLAVOR)


def _error(status: int, message: str) -> Response:
    return PlainTextResponse(f"{message}\n", status_code=status, headers=_FLAVOR)
