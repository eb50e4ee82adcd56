"""
The token endpoint of service accounts: a bearer token for a signed grant [RFC 7523].

A key file names it as its ``token_uri``. Errors have the form of OAuth 2 [RFC 6749, section 5.2].
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import parse_qs

import structlog
from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from training_service.access.identity import LIFETIME, Authenticator, Unauthenticated
from training_service.api.openapi import errors
from training_service.api.routes import Routes

logger = structlog.get_logger(__name__)

PATH = "/token"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_MAX_FORM_BYTES = 16 * 1024


class Bearer(BaseModel):
    """A bearer token, and for how many seconds it is good."""

    access_token: str
    expires_in: int
    token_type: Literal["Bearer"]


class TokenError(BaseModel):
    """Why there is none."""

    error: str
    error_description: str


def token_router(authenticator: Authenticator) -> Routes:
    """Return the route that gives out tokens to accounts that ``authenticator`` knows."""
    router = Routes(tags=["tokens"])

    @router.post(PATH, response_model=Bearer, responses=errors(400, 413, body=TokenError))
    async def by_grant(request: Request) -> JSONResponse:
        """Return a token for a form with ``grant_type`` and ``assertion``."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM_BYTES:
                return _error("invalid_request", f"the form must have at most {_MAX_FORM_BYTES} bytes", 413)
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        if form.get("grant_type") != _GRANT:
            return _error("unsupported_grant_type", f"grant_type must be {_GRANT}")
        try:
            token = await run_in_threadpool(authenticator.token_for, form.get("assertion", ""))
        except Unauthenticated as error:
            logger.warning("a grant was refused", reason=str(error))
            return _error("invalid_grant", str(error))
        answer = {
            "access_token": token,
            "expires_in": round(LIFETIME.total_seconds()),
            "token_type": "Bearer",
        }
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    return router


def _error(name: str, description: str, status: int = 400) -> JSONResponse:
    return JSONResponse({"error": name, "error_description": description}, status_code=status)
