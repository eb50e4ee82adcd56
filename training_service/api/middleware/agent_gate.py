"""
The gate of the agents' routes: an ASGI middleware.

It goes by the headers, before the body is read. Only agents may use them, also where the service is open to
all.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from training_service.access.agent_token import AgentTokens
from training_service.agent.wire import PREFIX
from training_service.api.errors import error_response

#: Where the scope of a request says of which machine its token is.
MACHINE = "container_training.agent_machine"


class AgentGate:
    """
    Lets agents in, and notes of which machine each is.

    :param is_active: whether this service moves the jobs now; another one knows no streams.
    """

    def __init__(self, app: ASGIApp, tokens: AgentTokens, is_active: Callable[[], bool]) -> None:
        self._app = app
        self._tokens = tokens
        self._is_active = is_active

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app = self._app
        if scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/"):
            scope[MACHINE] = self._tokens.machine_of(Headers(scope=scope).get("authorization"))
            if scope[MACHINE] is None:
                app = error_response(
                    401, "this route is for node agents: it wants the token of a machine's agent"
                )
            elif not self._is_active():
                app = error_response(503, "this service is a standby; the active one takes reports")
        await app(scope, receive, send)
