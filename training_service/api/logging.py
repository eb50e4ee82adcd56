"""``entries:list`` of the Logging API, as far as a job's log needs it."""

from __future__ import annotations

import re

from fastapi.responses import JSONResponse

from training_api.cloud_logging import ListLogEntriesRequest, ListLogEntriesResponse
from training_api.errors import InvalidRequest
from training_service.access.control import AccessControl
from training_service.access.roles import LOG_LIST
from training_service.api.access import CurrentCaller
from training_service.api.routes import Routes
from training_service.model.paging import page_size
from training_service.model.projects import PROJECT_PATTERN
from training_service.store.audit_store import NO_PROJECT, AuditStore, asks_for_audit_log
from training_service.store.logs.log_store import LogStore

#: Logging API, entries.list: "Default is 50"; at most 1000. What is more is cut here, and refused there.
DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000
#: Logging API, entries.list resourceNames: at most 100 [unverified].
MAX_RESOURCES = 100
_PROJECT = re.compile(PROJECT_PATTERN)
_ORDERS = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}


def logging_router(store: LogStore, audit: AuditStore, access: AccessControl) -> Routes:
    """
    Return the routes over the logs of jobs and the audit log.

    A filter by ``logName`` asks for the latter.
    """
    router = Routes(prefix="/v2", tags=["logging"])

    @router.post("/entries:list", response_model=ListLogEntriesResponse)
    def list_entries(request: ListLogEntriesRequest, caller: CurrentCaller) -> JSONResponse:
        """List log entries, by default oldest first."""
        projects = _projects(request)
        for project in projects:
            access.check(caller, LOG_LIST, f"projects/{project}")
        log = audit if asks_for_audit_log(request.filter) else store
        entries, token = log.list_page(
            projects=projects,
            filter_text=request.filter,
            page_size=page_size(request.page_size, default=DEFAULT_PAGE_SIZE, maximum=MAX_PAGE_SIZE),
            page_token=request.page_token,
            descending=_descending(request),
        )
        answer = ListLogEntriesResponse(entries=entries or None, next_page_token=token or None)
        return JSONResponse(answer.to_wire())

    return router


def _projects(request: ListLogEntriesRequest) -> list[str]:
    """
    Return the project ids of ``projects/P``.

    A deeper name (a log view) counts as its project.
    """
    names = [*request.resource_names, *(f"projects/{project}" for project in request.project_ids)]
    if not 0 < len(names) <= MAX_RESOURCES:
        rule = f"must name from 1 to {MAX_RESOURCES} projects"
        raise InvalidRequest.of("resourceNames", f"{rule}, projectIds included; got {len(names)}")
    return [_project(name) for name in names]


def _project(name: str) -> str:
    kind, _, rest = name.partition("/")
    project = rest.split("/", 1)[0]
    if kind != "projects" or not (_PROJECT.fullmatch(project) or project == NO_PROJECT):
        raise InvalidRequest.of("resourceNames", f"must be projects/PROJECT, got {name[:100]!r}")
    return project


def _descending(request: ListLogEntriesRequest) -> bool:
    if request.order_by not in _ORDERS:
        raise InvalidRequest.of(
            "orderBy", f"must be 'timestamp asc' or 'timestamp desc', got {request.order_by[:100]!r}"
        )
    return _ORDERS[request.order_by]
