"""What the HTTP servers of this process have in common."""

from __future__ import annotations

from typing import Any

import uvicorn
from starlette.types import ASGIApp

#: How long an idle connection is kept: longer than any client keeps it (httpx 5 s, uvicorn's own default too,
#: load balancers 60 s). Where both give up at once, a request meets the closing, and has no answer.
_KEEP_ALIVE_SECONDS = 75


def http_config(app: ASGIApp, **own: Any) -> uvicorn.Config:
    """
    Return how the HTTP server of ``app`` runs.

    :param own: more arguments of ``uvicorn.Config``.
    """
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        # Whoever asks over loopback could say any address, and the audit log would have it.
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        **own,
    )
