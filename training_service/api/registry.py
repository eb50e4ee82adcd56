"""
The registry's token endpoint.

``GET`` with Basic authentication, and the OAuth2 form by ``POST``: a password, or a token of before.

Errors have the registry's form, as its clients show them. Nothing here is written to a log but who asked for
what.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
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
    RegistryToken,
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
    desk = _Desk(tokens, authenticator)

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
        return desk.issue(request, login, service, scope or [])

    @router.post(PATH, responses=errors(413, body=RegistryErrorBody))
    async def by_form(request: Request) -> JSONResponse:
        """
        The same for a form with ``grant_type=password``.

        With ``grant_type=refresh_token``: that token again, which is one for the registry.
        """
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM_BYTES:
                return _error(413, "UNSUPPORTED", "the form is too long")
        fields = parse_qs(body.decode("utf-8", "replace"))
        return await run_in_threadpool(desk.of_form, request, {key: each[0] for key, each in fields.items()})

    return router


class _Desk:
    """Answers who asks for a token."""

    def __init__(self, tokens: RegistryTokens, authenticator: Authenticator) -> None:
        self._tokens = tokens
        self._authenticator = authenticator

    def of_form(self, request: Request, form: Mapping[str, str]) -> JSONResponse:
        service, scopes = form.get("service", ""), form.get("scope", "").split()
        match form.get("grant_type"):
            case "password":
                login = (form.get("username", ""), form.get("password", ""))
                return self.issue(request, login, service, scopes)
            case "refresh_token":
                return self._refresh(request, form.get("refresh_token", ""), service, scopes)
        return _error(400, "UNSUPPORTED", "grant_type must be 'password' or 'refresh_token'")

    def issue(
        self, request: Request, login: tuple[str, str] | None, service: str, scopes: list[str]
    ) -> JSONResponse:
        if service != SERVICE:
            return _other_service(service)
        try:
            caller = login_of(self._authenticator, *login) if login else Caller()
        except Unauthenticated:
            logger.warning("a login for the registry was refused", user=login[0][:100] if login else "")
            return _error(401, "UNAUTHORIZED", "invalid username or password")
        asked = [part for scope in scopes for part in scope.split()]
        return _give(request, self._tokens.issue(caller, asked), asked)

    def _refresh(self, request: Request, value: str, service: str, asked: list[str]) -> JSONResponse:
        if service != SERVICE:
            return _other_service(service)
        try:
            token = self._tokens.refresh(value)
        except Unauthenticated as error:
            logger.warning("a refresh token for the registry was refused", reason=str(error))
            return _error(401, "UNAUTHORIZED", "invalid refresh token")
        return _give(request, token, asked)


def _give(request: Request, token: RegistryToken, asked: list[str]) -> JSONResponse:
    logger.info("token for the registry", principal=token.principal, asked=asked[:5], granted=token.access)
    note_deed(request, _deed(Caller(principal=token.principal), asked, token.access))
    return JSONResponse(
        {
            "token": token.value,
            "access_token": token.value,
            "expires_in": round(token.lifetime.total_seconds()),
            "issued_at": token.issued_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        headers={"Cache-Control": "no-store"},
    )


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


def _other_service(service: str) -> JSONResponse:
    return _error(400, "UNSUPPORTED", f"service must be {SERVICE!r}, got {service[:100]!r}")


def _error(code: int, name: str, message: str) -> JSONResponse:
    headers = {"WWW-Authenticate": 'Basic realm="training-registry"'} if code == 401 else None
    body = {"errors": [{"code": name, "message": message, "detail": None}]}
    return JSONResponse(body, status_code=code, headers=headers)
