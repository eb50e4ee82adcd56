"""
IAM of buckets, as Cloud Storage's JSON API has it.

Buckets themselves are the object store's, which sends these requests here: one service holds all policies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any, cast

from fastapi import Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from training_api.errors import EditConflict, TrainingError
from training_api.iam.policy import ON_BUCKETS
from training_api.iam.registry_resources import bucket_resource_name
from training_api.iam.resource_wire import BucketPermissions, BucketPolicy
from training_api.iam.wire import Policy, SetIamPolicyRequest
from training_service.access.control import AccessControl
from training_service.api.access import CurrentCaller
from training_service.api.errors import challenge
from training_service.api.openapi import errors
from training_service.api.routes import Routes
from training_service.use_cases.policies import Policies

_PREFIX = "/storage/v1/b/"
#: Bucket names: https://cloud.google.com/storage/docs/buckets#naming (3 to 63 characters, 222 with dots).
_Bucket = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$")]

#: HTTP status -> ``reason``. Source: https://cloud.google.com/storage/docs/json_api/v1/status-codes
_REASONS = {
    400: "invalid",
    401: "required",
    403: "forbidden",
    404: "notFound",
    409: "conflict",
    412: "conditionNotMet",
    429: "rateLimitExceeded",
}


class StorageErrorItem(BaseModel):
    """One cause of an error."""

    message: str
    domain: str
    reason: str


class StorageError(BaseModel):
    """What went wrong."""

    code: int
    message: str
    errors: list[StorageErrorItem]


class StorageErrorBody(BaseModel):
    """The body of an error in Cloud Storage's JSON API."""

    error: StorageError


class StorageRoute(APIRoute):
    """A route that answers errors in the form of Cloud Storage's JSON API."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with the errors of the service translated."""
        handle = super().get_route_handler()

        async def translated(request: Request) -> Response:
            try:
                return await handle(request)
            except (TrainingError, RequestValidationError, HTTPException) as error:
                return _answer_of(request, error)

        return translated


def bucket_iam_router(policies: Policies, access: AccessControl) -> Routes:
    """Return the routes of ``b/BUCKET/iam``."""
    router = Routes(
        prefix=f"{_PREFIX}{{bucket}}/iam",
        tags=["storage"],
        route_class=StorageRoute,
        responses=errors(400, 401, 403, 404, body=StorageErrorBody),
    )

    @router.get("", response_model=BucketPolicy)
    def get_policy(
        bucket: _Bucket, version: Annotated[int, Query(alias="optionsRequestedPolicyVersion")] = 0
    ) -> JSONResponse:
        """Return a bucket's policy; the empty one if none was set."""
        return _answer(bucket, policies.get(bucket_resource_name(bucket), version))

    @router.put("", response_model=BucketPolicy, responses=errors(412, body=StorageErrorBody))
    def set_policy(bucket: _Bucket, policy: BucketPolicy) -> JSONResponse:
        """Replace a bucket's policy."""
        request = SetIamPolicyRequest(
            policy=Policy(bindings=policy.bindings, etag=policy.etag, version=policy.version)
        )
        return _answer(bucket, policies.set(bucket_resource_name(bucket), request))

    @router.get("/testPermissions", response_model=BucketPermissions)
    def test_permissions(
        bucket: _Bucket, caller: CurrentCaller, permissions: Annotated[list[str] | None, Query()] = None
    ) -> JSONResponse:
        """Return which of the permissions the caller has on a bucket."""
        may = partial(access.may, caller, resource=bucket_resource_name(bucket))
        granted = policies.test(permissions or [], ON_BUCKETS, may)
        answer = BucketPermissions(kind="storage#testIamPermissionsResponse", permissions=granted or None)
        return JSONResponse(answer.to_wire())

    return router


def _answer(bucket: str, policy: Policy) -> JSONResponse:
    answer = BucketPolicy(
        kind="storage#policy",
        resource_id=f"projects/_/buckets/{bucket}",
        version=policy.version,
        etag=policy.etag,
        bindings=policy.bindings,
    )
    return JSONResponse(answer.to_wire())


def _answer_of(request: Request, error: Exception) -> Response:
    """Return what the service's handler of ``error`` would, in the other form."""
    handlers = request.app.exception_handlers
    handler = next(handlers[kind] for kind in type(error).__mro__ if kind in handlers)
    answer = cast("Response", handler(request, error))
    message = json.loads(bytes(answer.body))["error"]["message"]
    return storage_error(412 if isinstance(error, EditConflict) else answer.status_code, message)


def is_storage_path(path: str) -> bool:
    """Tell whether errors at ``path`` have the form of Cloud Storage's JSON API."""
    return path.startswith(_PREFIX)


def storage_error(code: int, message: str) -> JSONResponse:
    """Return an error in the form of Cloud Storage's JSON API."""
    cause = StorageErrorItem(message=message, domain="global", reason=_REASONS.get(code, "backendError"))
    content = StorageErrorBody(error=StorageError(code=code, message=message, errors=[cause]))
    return JSONResponse(content.model_dump(), status_code=code, headers=challenge(code))
