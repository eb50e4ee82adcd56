"""The audit log: a line ``audit`` of the service's log for each change and each refusal."""

from __future__ import annotations

from urllib.parse import quote

import structlog
from fastapi import Request

from training_service.api.access import NEEDS

logger = structlog.get_logger("audit")

_REFUSED = (401, 403)
_READING = ("GET", "HEAD", "OPTIONS")
#: POST methods that change nothing are questions with a long query.
_QUESTIONS = ("list", "search", "get", "getIamPolicy")


def note(request: Request, status: int) -> None:
    """
    Write a line if the request changes something, or was refused.

    It has no body, no query and no header: none of them goes into a log.
    """
    if status not in _REFUSED and not _changes(request):
        return
    caller = getattr(request.state, "caller", None)
    logger.info(
        "audit",
        principal=(caller and caller.principal) or "anonymous",
        address=request.client.host if request.client else "",
        method=request.method,
        resource=quote(request.scope["path"], safe="/:"),  # no line break
        status=status,
    )


def _changes(request: Request) -> bool:
    route = getattr(request.scope.get("route"), "path", "")
    needs = NEEDS.get((request.method, route))
    if needs is None:
        return route.startswith("/faults") and request.method not in _READING
    return needs.permission.rpartition(".")[2] not in _QUESTIONS and request.method not in _READING
