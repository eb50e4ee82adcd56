"""
The object store's question: may the container at this address do that?

It is answered to everybody, as the store has no credentials; a refusal names the job at that address.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import Field

from training_api.wire import WireModel
from training_service.api.middleware.audit_log import Deed, note_deed
from training_service.api.openapi import errors
from training_service.api.routes import Routes
from training_service.use_cases.object_access import ObjectAccess, ObjectQuestion


class CheckObjectAccessRequest(WireModel):
    """What a container wants to do; see ``ObjectQuestion``."""

    address: str = Field(max_length=64)
    permission: str = Field(max_length=64)
    bucket: str = Field("", max_length=222)
    project: str = Field("", max_length=64)
    object: str = Field("", max_length=1024)


class CheckObjectAccessResponse(WireModel):
    """Whether it may; see ``ObjectAnswer``."""

    allowed: bool
    may_replace: bool
    reason: str


def object_access_router(access: ObjectAccess) -> Routes:
    """Return the route over ``access``."""
    router = Routes(prefix="/ops/v1", tags=["ops"])

    @router.post("/objects:checkAccess", response_model=CheckObjectAccessResponse, responses=errors(400, 503))
    def check(asked: CheckObjectAccessRequest, request: Request) -> JSONResponse:
        """Tell whether the container at an address may do something with an object or a bucket."""
        question = ObjectQuestion(
            address=asked.address,
            permission=asked.permission,
            bucket=asked.bucket,
            project=asked.project,
            name=asked.object,
        )
        answer = access.check(question)
        if not answer.allowed:
            deed = Deed(
                permission=asked.permission,
                resource=f"projects/_/buckets/{asked.bucket}/objects/{asked.object}",
                principal=answer.principal,
                project=answer.project,
                refused=True,
            )
            note_deed(request, deed)
        response = CheckObjectAccessResponse(
            allowed=answer.allowed, may_replace=answer.may_replace, reason=answer.reason
        )
        return JSONResponse(response.to_wire())

    return router
