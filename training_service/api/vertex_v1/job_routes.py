"""``projects.locations.customJobs`` of Vertex AI, and its relatives, over REST."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Protocol

from fastapi import Body, Query, Request
from fastapi.responses import JSONResponse

from training_api.dialects.vertex_v1.names import job_name
from training_service.access.decision import Caller
from training_service.api.access import CurrentCaller
from training_service.api.middleware.audit_log import Deed, note_deed
from training_service.api.paths import PageSize, ProjectPath
from training_service.api.routes import Routes
from training_service.api.vertex_v1.answers import Answering, LocationPath
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.messages import OPERATION
from training_service.api.vertex_v1.paths import LOCATION


class Methods(Protocol):
    """The methods of a resource that runs, in canonical JSON: what every transport calls."""

    message: ClassVar[str]
    collection: ClassVar[str]

    def create(self, project: str, location: str, body: Any, caller: Caller) -> dict[str, Any]: ...

    def list_page(
        self,
        project: str,
        location: str,
        *,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
        mask: str = "",
    ) -> dict[str, Any]: ...

    def get(self, project: str, location: str, job_id: str, /) -> dict[str, Any]: ...

    def cancel(self, project: str, location: str, job_id: str, /) -> dict[str, Any]: ...

    def delete(self, project: str, location: str, job_id: str, /) -> dict[str, Any]: ...


def jobs_router(methods: Methods, create_permission: str) -> Routes:
    """
    Return the routes over ``methods``.

    They are plain functions: the store blocks, so they run on worker threads.

    :param create_permission: what the audit log says of a new job.
    """
    message, collection = methods.message, methods.collection
    router = Routes(prefix=f"{LOCATION}/{collection}", tags=[f"Vertex AI: {collection}"])

    @router.post("")
    def create(
        project: ProjectPath,
        location: LocationPath,
        body: Annotated[Any, Body()],
        caller: CurrentCaller,
        answer: Answering,
        request: Request,
    ) -> JSONResponse:
        """Submit it; the service gives it an id."""
        created = methods.create(project, location, body, caller)
        name = job_name(project, location, collection, created["name"].rpartition("/")[2])
        note_deed(request, Deed(permission=create_permission, resource=name))
        return answer(message, created)

    @router.get("")
    def list_jobs(
        project: ProjectPath,
        location: LocationPath,
        answer: Answering,
        filter_text: Annotated[str, Query(alias="filter")] = "",
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
        mask: Annotated[str, Query(alias="readMask")] = "",
    ) -> JSONResponse:
        """List those of a location, newest first."""
        page = methods.list_page(
            project, location, filter_text=filter_text, page_size=page_size, page_token=page_token, mask=mask
        )
        return answer(f"List{message}sResponse", page)

    @router.get("/{job_id}")
    def get(project: ProjectPath, location: LocationPath, job_id: str, answer: Answering) -> JSONResponse:
        """Describe one."""
        return answer(message, methods.get(project, location, job_id))

    @router.post("/{job_id}:cancel")
    def cancel(
        project: ProjectPath, location: LocationPath, job_id: str, body: Annotated[Any, Body()] = None
    ) -> dict[str, Any]:
        """Cancel one; what has ended is left as it is."""
        canonical(f"Cancel{message}Request", body or {})
        return methods.cancel(project, location, job_id)

    @router.delete("/{job_id}")
    def delete(project: ProjectPath, location: LocationPath, job_id: str, answer: Answering) -> JSONResponse:
        """Delete one that has ended; the operation that is answered is done."""
        return answer(OPERATION, methods.delete(project, location, job_id))

    return router
