"""
The registry's token endpoint.

``GET`` with Basic authentication, and the OAuth2 form by ``POST``.

Errors have the registry's form, as its clients show them. Nothing here is written to a log but who asked for
what.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any
from urllib.parse import parse_qs

import structlog
from fastapi import Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from training_api.iam.registry_wire import ACCESS_TOKEN_USER
from training_service.access.decision import Caller
from training_service.access.identity import Authenticator, Unauthenticated
from training_service.access.registry_tokens import (
    MAX_SCOPES,
    PERMISSIONS,
    SERVICE,
    RegistryTokens,
    local_repository,
)
from training_service.api.middleware.audit_log import Deed, note_deed
from training_service.api.openapi import errors
from training_service.api.routes import Routes

logger = structlog.get_logger(__name__)

PATH = "/registry/token"
_MAX_FORM_BYTES = 64 * 1024


class RegistryError(BaseModel):
    """One error in the registry's form [distribution: docs/spec/api.md, "Errors"]."""

    code: str
    message: str
    detail: Any = None


class RegistryErrorBody(BaseModel):
    """The body of an error."""

    errors: list[RegistryError]


def registry_router(tokens: RegistryTokens, authenticator: Authenticator) -> Routes:
    """Return the routes that give out ``tokens`` to whom ``authenticator`` knows."""
    router = Routes(tags=["registry"], responses=errors(400, 401, 403, 404, body=RegistryErrorBody))

    @router.get(PATH)
    def by_basic(
        request: Request,
        service: Annotated[str, Query()] = "",
        scope: Annotated[list[str] | None, Query()] = None,
    ) -> JSONResponse:
        """
        Return a token for the scopes that the caller may have.

        Without credentials, those of every caller.
        """
        header = request.headers.get("authorization")
        try:
            login = _basic(header) if header is not None else None
        except ValueError:
            return _error(401, "UNAUTHORIZED", "the Authorization header must be 'Basic' and a login")
        return answer(request, login, service, scope or [])

    @router.post(PATH, responses=errors(413, body=RegistryErrorBody))
    async def by_form(request: Request) -> JSONResponse:
        """The same for a form with ``grant_type=password``."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM_BYTES:
                return _error(413, "UNSUPPORTED", "the form is too long")
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        if form.get("grant_type") != "password":
            return _error(400, "UNSUPPORTED", "grant_type must be 'password'")
        return await run_in_threadpool(
            answer,
            request,
            (form.get("username", ""), form.get("password", "")),
            form.get("service", ""),
            form.get("scope", "").split(),
        )

    def answer(
        request: Request, login: tuple[str, str] | None, service: str, scopes: list[str]
    ) -> JSONResponse:
        if service != SERVICE:
            return _error(400, "UNSUPPORTED", f"service must be {SERVICE!r}, got {service[:100]!r}")
        try:
            caller = login_of(authenticator, *login) if login else Caller()
        except Unauthenticated:
            logger.warning("a login for the registry was refused", user=login[0][:100] if login else "")
            return _error(401, "UNAUTHORIZED", "invalid username or password")
        asked = [part for scope in scopes for part in scope.split()]
        token = tokens.issue(caller, asked)
        logger.info(
            "token for the registry", principal=caller.principal, asked=asked[:5], granted=token.access
        )
        note_deed(request, _deed(caller, asked, token.access))
        return JSONResponse(
            {
                "token": token.value,
                "access_token": token.value,
                "expires_in": round(token.lifetime.total_seconds()),
                "issued_at": token.issued_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            headers={"Cache-Control": "no-store"},
        )

    return router


def _deed(caller: Caller, asked: list[str], access: list[dict[str, Any]]) -> Deed | None:
    """Return what the audit log notes of a token: what it lacks, or else that it changes images."""
    granted = {(each["name"], action) for each in access for action in each["actions"]}
    deeds = []
    for scope in asked[:MAX_SCOPES]:
        name, _, actions = scope.removeprefix("repository:").rpartition(":")
        resource = local_repository(name)
        for action in actions.split(","):
            is_refused = (name, action) not in granted
            if action in PERMISSIONS and (is_refused or action != "pull"):
                deeds.append(
                    Deed(
                        permission=PERMISSIONS[action],
                        resource=resource.name if resource else name,
                        principal=caller.principal,
                        refused=is_refused,
                    )
                )
    return max(deeds, key=lambda deed: deed.refused, default=None)


def login_of(authenticator: Authenticator, user: str, password: str) -> Caller:
    """
    Return the principal of a login.

    The password is a bearer token, the user ``oauth2accesstoken`` or the principal's name.

    :raises Unauthenticated: the token is none, or somebody else's.
    """
    caller = authenticator.caller_of(password)
    if user not in (ACCESS_TOKEN_USER, caller.principal.partition(":")[2]):
        raise Unauthenticated("the token is another user's")
    return caller


def _basic(header: str) -> tuple[str, str]:
    """:raises ValueError: ``header`` is no Basic authentication."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        raise ValueError(scheme)
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except binascii.Error as error:
        raise ValueError("not base64") from error
    return user, password


def _error(code: int, name: str, message: str) -> JSONResponse:
    headers = {"WWW-Authenticate": 'Basic realm="training-registry"'} if code == 401 else None
    body = {"errors": [{"code": name, "message": message, "detail": None}]}
    return JSONResponse(body, status_code=code, headers=headers)
