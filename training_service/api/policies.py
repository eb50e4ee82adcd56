"""
IAM of projects and repositories, as far as policies need it.

Resource Manager v1 and Artifact Registry v1.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Path, Query
from fastapi.responses import JSONResponse

from training_api.iam.policy import ON_PROJECTS, ON_REPOSITORIES
from training_api.iam.registry_resources import project_resource, repository_resource
from training_api.iam.resource_wire import Project, Repository
from training_api.iam.wire import (
    GetIamPolicyRequest,
    GetPolicyOptions,
    Policy,
    SetIamPolicyRequest,
    TestIamPermissionsRequest,
    TestIamPermissionsResponse,
)
from training_api.job.project_number import project_number
from training_service.access.control import AccessControl
from training_service.api.access import CurrentCaller
from training_service.api.openapi import errors
from training_service.api.paths import ProjectPath
from training_service.api.routes import Routes
from training_service.use_cases.policies import Policies

#: As ``ProjectPath``, but a colon only after a domain: ``P:someMethod`` is no project.
_ProjectAlone = Annotated[
    str, Path(pattern=r"^(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+:)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
]
_Location = Annotated[str, Path(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
_RepositoryId = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,127}$")]


def resource_manager_router(policies: Policies, access: AccessControl) -> Routes:
    """Return the routes of projects; every project exists."""
    router = Routes(prefix="/v1/projects/{project}", tags=["cloudresourcemanager"])

    @router.post(":getIamPolicy", response_model=Policy)
    def get_policy(project: ProjectPath, request: GetIamPolicyRequest | None = None) -> JSONResponse:
        """Return a project's policy; the empty one if none was set."""
        options = (request and request.options) or GetPolicyOptions()
        name = project_resource(project).name
        return JSONResponse(policies.get(name, options.requested_policy_version or 0).to_wire())

    @router.post(":setIamPolicy", response_model=Policy, responses=errors(409))
    def set_policy(project: ProjectPath, request: SetIamPolicyRequest) -> JSONResponse:
        """Replace a project's policy."""
        return JSONResponse(policies.set(project_resource(project).name, request).to_wire())

    @router.post(":testIamPermissions", response_model=TestIamPermissionsResponse)
    def test_permissions(
        project: ProjectPath, request: TestIamPermissionsRequest, caller: CurrentCaller
    ) -> JSONResponse:
        """Return which of the permissions the caller has on a project."""
        may = partial(access.may, caller, resource=project_resource(project).name)
        granted = policies.test(request.permissions or [], ON_PROJECTS, may)
        return JSONResponse(TestIamPermissionsResponse(permissions=granted or None).to_wire())

    @router.get("", response_model=Project)
    def get(project: _ProjectAlone) -> JSONResponse:
        """Describe a project."""
        found = Project(
            project_id=project,
            project_number=project_number(project),
            name=project,
            lifecycle_state="ACTIVE",
        )
        return JSONResponse(found.to_wire())

    return router


def artifact_registry_router(policies: Policies, access: AccessControl) -> Routes:
    """
    Return the routes of repositories.

    Every repository exists, as the first push to the local registry makes it.
    """
    router = Routes(
        prefix="/v1/projects/{project}/locations/{location}/repositories/{repository}",
        tags=["artifactregistry"],
    )

    @router.get(":getIamPolicy", response_model=Policy)
    def get_policy(
        project: ProjectPath,
        location: _Location,
        repository: _RepositoryId,
        version: Annotated[int, Query(alias="options.requestedPolicyVersion")] = 0,
    ) -> JSONResponse:
        """Return a repository's policy; the empty one if none was set."""
        name = repository_resource(project, location, repository).name
        return JSONResponse(policies.get(name, version).to_wire())

    @router.post(":setIamPolicy", response_model=Policy, responses=errors(409))
    def set_policy(
        project: ProjectPath, location: _Location, repository: _RepositoryId, request: SetIamPolicyRequest
    ) -> JSONResponse:
        """Replace a repository's policy."""
        name = repository_resource(project, location, repository).name
        return JSONResponse(policies.set(name, request).to_wire())

    @router.post(":testIamPermissions", response_model=TestIamPermissionsResponse)
    def test_permissions(
        project: ProjectPath,
        location: _Location,
        repository: _RepositoryId,
        request: TestIamPermissionsRequest,
        caller: CurrentCaller,
    ) -> JSONResponse:
        """Return which of the permissions the caller has on a repository."""
        resource = repository_resource(project, location, repository).name
        may = partial(access.may, caller, resource=resource)
        granted = policies.test(request.permissions or [], ON_REPOSITORIES, may)
        return JSONResponse(TestIamPermissionsResponse(permissions=granted or None).to_wire())

    @router.get("", response_model=Repository)
    def get(project: ProjectPath, location: _Location, repository: _RepositoryId) -> JSONResponse:
        """Describe a repository."""
        name = repository_resource(project, location, repository).name
        return JSONResponse(Repository(name=name, format="DOCKER", mode="STANDARD_REPOSITORY").to_wire())

    return router
