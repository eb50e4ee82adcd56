"""``entries:list`` of the Logging API, as far as a job's log needs it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from training_api.dialects.ml_v1.log_wire import ListLogEntriesRequest, ListLogEntriesResponse
from training_api.errors import FieldViolation, InvalidRequest
from training_service.access.control import AccessControl
from training_service.access.roles import LOG_LIST
from training_service.api.access import CurrentCaller
from training_service.store.log_store import LogStore

#: Logging API: entries.list pageSize, at most 1000.
MAX_PAGE_SIZE = 1000
_ORDERS = {"": False, "timestamp": False, "timestamp asc": False, "timestamp desc": True}


def logging_router(store: LogStore, access: AccessControl) -> APIRouter:
    """Return the routes over ``store``."""
    router = APIRouter(prefix="/v2", tags=["logging"])

    @router.post("/entries:list", response_model=ListLogEntriesResponse)
    def list_entries(request: ListLogEntriesRequest, caller: CurrentCaller) -> JSONResponse:
        """List log entries, by default oldest first."""
        projects = _projects(request)
        for project in projects:
            access.check(caller, LOG_LIST, f"projects/{project}")
        entries, token = store.list_page(
            projects=projects,
            filter_text=request.filter,
            page_size=min(max(request.page_size, 1), MAX_PAGE_SIZE),
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
    projects = []
    for name in names:
        kind, _, rest = name.partition("/")
        if kind != "projects" or not rest:
            raise _invalid("resourceNames", f"must be projects/PROJECT, got {name!r}")
        projects.append(rest.split("/", 1)[0])
    if not projects:
        raise _invalid("resourceNames", "must name at least one project")
    return projects


def _descending(request: ListLogEntriesRequest) -> bool:
    if request.order_by not in _ORDERS:
        raise _invalid("orderBy", f"must be 'timestamp asc' or 'timestamp desc', got {request.order_by!r}")
    return _ORDERS[request.order_by]


def _invalid(field: str, description: str) -> InvalidRequest:
    return InvalidRequest([FieldViolation(field=field, description=description)])
