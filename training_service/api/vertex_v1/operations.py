"""
``operations`` of Vertex AI: what a deletion and an upload answer.

Every operation here is done when it is answered. The newest are kept in memory, so that a client that asks
again is told the same; the next process does not know them.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Annotated, Any

from fastapi import Body, Query
from fastapi.responses import JSONResponse

from training_api.dialects.vertex_v1.names import location_name, new_id
from training_api.errors import ResourceNotFound
from training_api.job.project_number import project_number
from training_api.wire import format_timestamp
from training_service.api.paths import PageSize, ProjectPath
from training_service.api.routes import Routes
from training_service.api.vertex_v1.answers import Answering, LocationPath
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.messages import OPERATION, PACKAGE
from training_service.api.vertex_v1.paths import LOCATION
from training_service.model import paging
from training_service.model.clock import Clock, utc_now

_TYPE = "type.googleapis.com"
_KEPT = 1000
_DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE = 100, 1000


class Operations:
    """
    The newest operations of all projects; safe for threads.

    :param random_number: what their ids are made from.
    :param kept: how many.
    """

    def __init__(
        self,
        clock: Clock = utc_now,
        random_number: Callable[[], int] = lambda: secrets.randbits(63),
        kept: int = _KEPT,
    ) -> None:
        self._random_number = random_number
        self._clock = clock
        self._kept = kept
        self._newest: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._lock = Lock()

    def done(self, project: str, location: str) -> dict[str, Any]:
        """Return a new operation that has deleted something."""
        return self._ended(project, location, "DeleteOperationMetadata", "google.protobuf.Empty")

    def answered(
        self, project: str, location: str, method: str, response: Mapping[str, Any]
    ) -> dict[str, Any]:
        """
        Return a new operation that has done what ``method`` asks for.

        :param method: of the API, like ``UploadModel``.
        :param response: the fields of its response message.
        """
        return self._ended(
            project, location, f"{method}OperationMetadata", f"{PACKAGE}.{method}Response", **response
        )

    def _ended(
        self, project: str, location: str, metadata: str, kind: str, **response: Any
    ) -> dict[str, Any]:
        now = format_timestamp(self._clock())
        name = f"{_parent(project, location)}/operations/{new_id(self._random_number())}"
        operation = {
            "name": name,
            "metadata": {
                "@type": f"{_TYPE}/{PACKAGE}.{metadata}",
                "genericMetadata": {"createTime": now, "updateTime": now},
            },
            "done": True,
            "response": {"@type": f"{_TYPE}/{kind}", **response},
        }
        with self._lock:
            self._newest[name] = operation
            while len(self._newest) > self._kept:
                self._newest.popitem(last=False)
        return operation

    def get(self, project: str, location: str, operation_id: str) -> dict[str, Any]:
        """Return an operation. :raises ResourceNotFound: there is none, or it is too old."""
        name = f"{_parent(project, location)}/operations/{operation_id}"
        with self._lock:
            found = self._newest.get(name)
        if found is None:
            raise ResourceNotFound(
                f"operation {name[:200]!r} not found; this process knows its newest {self._kept}"
            )
        return found

    def of(self, project: str, location: str) -> list[dict[str, Any]]:
        """Return the operations of a location, newest first."""
        parent = f"{_parent(project, location)}/"
        with self._lock:
            return [each for name, each in reversed(self._newest.items()) if name.startswith(parent)]


def operations_router(operations: Operations) -> Routes:
    """Return the routes over ``operations``."""
    router = Routes(prefix=f"{LOCATION}/operations", tags=["Vertex AI: operations"])

    @router.get("")
    def list_operations(
        project: ProjectPath,
        location: LocationPath,
        answer: Answering,
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
    ) -> JSONResponse:
        """List the newest operations."""
        size = paging.page_size(page_size, default=_DEFAULT_PAGE_SIZE, maximum=_MAX_PAGE_SIZE)
        found = operations.of(project, location)
        names = [each["name"] for each in found]
        if page_token and page_token not in names:
            raise paging.foreign_token(page_token)
        start = names.index(page_token) if page_token else 0
        page = found[start : start + size]
        rest = {"nextPageToken": names[start + size]} if start + size < len(found) else {}
        return answer("google.longrunning.ListOperationsResponse", {"operations": page, **rest})

    @router.get("/{operation_id}")
    def get(
        project: ProjectPath, location: LocationPath, operation_id: str, answer: Answering
    ) -> JSONResponse:
        """Describe an operation."""
        return answer(OPERATION, operations.get(project, location, operation_id))

    @router.post("/{operation_id}:wait")
    def wait(
        project: ProjectPath,
        location: LocationPath,
        operation_id: str,
        answer: Answering,
        body: Annotated[Any, Body()] = None,
    ) -> JSONResponse:
        """Describe an operation, which is done: there is nothing to wait for."""
        canonical("google.longrunning.WaitOperationRequest", body or {})
        return answer(OPERATION, operations.get(project, location, operation_id))

    return router


def _parent(project: str, location: str) -> str:
    return location_name(project_number(project), location)
