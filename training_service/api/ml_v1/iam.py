"""IAM of ``projects.jobs``: getIamPolicy, setIamPolicy, testIamPermissions."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query
from fastapi.responses import JSONResponse

from training_api.iam.wire import (
    Policy,
    SetIamPolicyRequest,
    TestIamPermissionsRequest,
    TestIamPermissionsResponse,
)
from training_service.access.control import AccessControl
from training_service.api.access import CurrentCaller
from training_service.api.openapi import errors
from training_service.api.paths import ProjectPath
from training_service.api.routes import Routes
from training_service.model.resources import job_resource
from training_service.use_cases.job_policies import JobPolicies


def job_iam_router(policies: JobPolicies, access: AccessControl) -> Routes:
    """Return the routes over ``policies``."""
    router = Routes(prefix="/v1/projects/{project}/jobs/{job_id}", tags=["projects.jobs"])

    @router.get(":getIamPolicy", response_model=Policy)
    def get_policy(
        project: ProjectPath,
        job_id: str,
        version: Annotated[int, Query(alias="options.requestedPolicyVersion")] = 0,
    ) -> JSONResponse:
        """Return a job's policy; the empty one if none was set."""
        return JSONResponse(policies.get(project, job_id, version).to_wire())

    @router.post(":setIamPolicy", response_model=Policy, responses=errors(409))
    def set_policy(project: ProjectPath, job_id: str, request: SetIamPolicyRequest) -> JSONResponse:
        """Replace a job's policy."""
        return JSONResponse(policies.set(project, job_id, request).to_wire())

    @router.post(":testIamPermissions", response_model=TestIamPermissionsResponse)
    def test_permissions(
        project: ProjectPath, job_id: str, request: TestIamPermissionsRequest, caller: CurrentCaller
    ) -> JSONResponse:
        """Return which of the permissions the caller has on a job."""
        may = partial(access.may, caller, resource=job_resource(project, job_id))
        granted = policies.test(project, job_id, request.permissions or [], may)
        return JSONResponse(TestIamPermissionsResponse(permissions=granted or None).to_wire())

    return router
