"""
The gate: an ASGI middleware that turns requests away before their body is read.

It goes by the headers alone: the name under which the service is asked, the web page that asks, the token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from training_api.errors import AccessDenied
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.api.access import FOR_AGENTS, PUBLIC
from training_service.api.bucket_iam import is_storage_path, storage_error
from training_service.api.errors import error_response

_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]]+))(?::\d{1,5})?")
#: What a browser says of pages that are not the service's own.
_OTHER_SITES = ("cross-site", "same-site")
_READING = ("GET", "HEAD", "OPTIONS")
#: Where a server within this process puts ``identity_of`` the request, if it had to know it before the app.
IDENTITY = "identity"


class Gate:
    """
    Lets in what may be a client's, and notes who sends it (``request.state.caller``).

    :param trusted_hosts: the names under which the service may be asked.
    """

    def __init__(self, app: ASGIApp, control: AccessControl, trusted_hosts: Collection[str]) -> None:
        self._app = app
        self._control = control
        self._trusted_hosts = trusted_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to who is turned away; ``None``: come in."""
        headers, path = Headers(scope=scope), scope["path"]
        name = _host_name(headers)
        if name not in self._trusted_hosts:
            return _answer(
                path,
                400,
                f"{scope['method']} {path}: the service must be asked as one of "
                f"{', '.join(self._trusted_hosts)}, got {name!r}; TRAINING_ALLOWED_HOSTS adds names",
            )
        if is_of_another_site(scope["method"], headers):
            return _answer(path, 403, "web pages of other sites may not use this service; ask it directly")
        route = scope["method"], path
        if route in PUBLIC or route in FOR_AGENTS:
            return None
        state = scope.setdefault("state", {})
        identity = state.get(IDENTITY) or identity_of(self._control.identify, headers.get("authorization"))
        if isinstance(identity, AccessDenied):
            return _answer(path, identity.code, str(identity))
        state["caller"] = identity
        return None


def identity_of(identify: Callable[[str | None], Caller], authorization: str | None) -> Caller | AccessDenied:
    """
    Return who sends a request with this ``Authorization`` header, or why it is refused.

    :param identify: ``AccessControl.identify``.
    """
    try:
        return identify(authorization)
    except AccessDenied as error:
        return error


def is_of_another_site(method: str, headers: Headers) -> bool:
    """
    Tell whether a web page of another site sends this request. Pure.

    Links to the service work: a browser names no origin when it follows one.
    """
    origin = headers.get("origin")
    host = headers.get("host", "").lower()
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return True
    return method not in _READING and headers.get("sec-fetch-site") in _OTHER_SITES


def _host_name(headers: Headers) -> str:
    """Return the name in ``Host``; empty: there is none, there are several, or it is none."""
    values = headers.getlist("host")
    found = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    return (found["six"] or found["name"]).lower() if found else ""


def _answer(path: str, code: int, message: str) -> JSONResponse:
    return (storage_error if is_storage_path(path) else error_response)(code, message)
