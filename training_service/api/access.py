"""
Which permission each route asks for, and the dependency that asks.

One table instead of a check in every route: a route that is not in it is closed to all but administrators.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.access.roles import (
    CUSTOM_JOB_CANCEL,
    CUSTOM_JOB_CREATE,
    CUSTOM_JOB_DELETE,
    CUSTOM_JOB_GET,
    CUSTOM_JOB_LIST,
    JOB_CANCEL,
    JOB_CREATE,
    JOB_GET,
    JOB_GET_POLICY,
    JOB_LIST,
    JOB_SET_POLICY,
    JOB_UPDATE,
    LOG_LIST,
    MODEL_DELETE,
    MODEL_GET,
    MODEL_LIST,
    MODEL_UPLOAD,
    OPERATION_LIST,
    PIPELINE_CANCEL,
    PIPELINE_CREATE,
    PIPELINE_DELETE,
    PIPELINE_GET,
    PIPELINE_LIST,
    TUNING_JOB_CANCEL,
    TUNING_JOB_CREATE,
    TUNING_JOB_DELETE,
    TUNING_JOB_GET,
    TUNING_JOB_LIST,
    VERTEX_LOCATION_GET,
    VERTEX_LOCATION_LIST,
)
from training_service.agent.wire import PATHS as AGENT_PATHS
from training_service.api.vertex_v1.paths import LOCATION, LOCATIONS, UNSERVED, UNSERVED_METHODS

_JOBS = "/v1/projects/{project}/jobs"
_JOB = "projects/{project}/jobs/{job_id}"
_LOCATIONS = "/v1/projects/{project}/locations"
_CUSTOM_JOBS = f"{LOCATION}/customJobs"
_TUNING_JOBS = f"{LOCATION}/hyperparameterTuningJobs"
_OPERATIONS = f"{LOCATION}/operations"
_PIPELINES = f"{LOCATION}/trainingPipelines"
_MODELS = f"{LOCATION}/models"
_PIPELINE = "projects/{project}/locations/{location}/trainingPipelines/{job_id}"
_MODEL = "projects/{project}/locations/{location}/models/{model_id}"
_CUSTOM_JOB = "projects/{project}/locations/{location}/customJobs/{job_id}"
_TUNING_JOB = "projects/{project}/locations/{location}/hyperparameterTuningJobs/{job_id}"
_OPS = "/ops/v1/projects/{project}"
_PROJECT = "projects/{project}"
_REPOSITORY = "projects/{project}/locations/{location}/repositories/{repository}"
_BUCKET_IAM = "/storage/v1/b/{bucket}/iam"


@dataclass(frozen=True, slots=True)
class Needs:
    """
    A permission, and the resource on which it is needed.

    The route's path parameters are in braces.
    """

    permission: str
    resource: str


#: For programs that watch the service: they show no job, and no name. The registry's endpoint reads a login
#: of its own, the token endpoint a grant; the object store's question knows a job by the address of its
#: container.
PUBLIC = frozenset(
    {
        ("GET", "/health"),
        ("GET", "/health/live"),
        ("GET", "/health/ready"),
        ("POST", "/ops/v1/objects:checkAccess"),
        ("GET", "/registry/token"),
        ("POST", "/registry/token"),
        ("POST", "/token"),
    }
)
#: Routes of agents, whose token ``middleware/agent_gate.py`` has checked.
FOR_AGENTS = frozenset(("POST", path) for path in AGENT_PATHS)
#: Routes that look at more than the path, and check by themselves; the caller is known.
OWN_CHECK = frozenset(
    {
        ("POST", "/v2/entries:list"),
        ("POST", f"{_JOBS}/{{job_id}}:testIamPermissions"),
        ("POST", f"/v1/{_PROJECT}:testIamPermissions"),
        ("POST", f"/v1/{_REPOSITORY}:testIamPermissions"),
        ("GET", f"{_BUCKET_IAM}/testPermissions"),
        # They say what the service does not have, and nothing else.
        *((method, UNSERVED) for method in UNSERVED_METHODS),
    }
)
#: Source: the method names' own permissions [docs: AI Platform Training, access control].
NEEDS: Mapping[tuple[str, str], Needs] = {
    ("GET", "/v1/projects/{project}:getConfig"): Needs("ml.projects.getConfig", "projects/{project}"),
    ("POST", _JOBS): Needs(JOB_CREATE, "projects/{project}"),
    ("GET", _JOBS): Needs(JOB_LIST, "projects/{project}"),
    ("GET", f"{_JOBS}/{{job_id}}"): Needs(JOB_GET, _JOB),
    ("PATCH", f"{_JOBS}/{{job_id}}"): Needs(JOB_UPDATE, _JOB),
    ("POST", f"{_JOBS}/{{job_id}}:cancel"): Needs(JOB_CANCEL, _JOB),
    ("GET", f"{_JOBS}/{{job_id}}:getIamPolicy"): Needs(JOB_GET_POLICY, _JOB),
    ("POST", f"{_JOBS}/{{job_id}}:setIamPolicy"): Needs(JOB_SET_POLICY, _JOB),
    ("GET", f"/logs/{_JOB}"): Needs(LOG_LIST, _PROJECT),
    ("POST", f"{_OPS}/jobs:search"): Needs(JOB_LIST, _PROJECT),
    ("GET", f"{_OPS}/jobs/{{job_id}}"): Needs(JOB_GET, _JOB),
    ("POST", f"{_OPS}/jobs/{{job_id}}:cancel"): Needs(JOB_CANCEL, _JOB),
    ("GET", f"{_OPS}/jobs/{{job_id}}/timeline"): Needs(JOB_GET, _JOB),
    ("GET", f"{_OPS}/jobs/{{job_id}}/usage"): Needs(JOB_GET, _JOB),
    ("GET", f"{_OPS}/jobs/{{job_id}}/curves"): Needs(JOB_GET, _JOB),
    ("GET", f"{_OPS}/jobs/{{job_id}}/measurements"): Needs(JOB_GET, _JOB),
    ("GET", f"{_OPS}/fleet"): Needs(JOB_LIST, _PROJECT),
    ("POST", f"{_OPS}/fleet:history"): Needs(JOB_LIST, _PROJECT),
    ("GET", f"{_OPS}/version"): Needs(JOB_LIST, _PROJECT),
    ("GET", _LOCATIONS): Needs("ml.locations.list", "projects/{project}"),
    ("GET", f"{_LOCATIONS}/{{location}}"): Needs("ml.locations.get", "projects/{project}"),
    ("POST", _CUSTOM_JOBS): Needs(CUSTOM_JOB_CREATE, _PROJECT),
    ("GET", _CUSTOM_JOBS): Needs(CUSTOM_JOB_LIST, _PROJECT),
    ("GET", f"{_CUSTOM_JOBS}/{{job_id}}"): Needs(CUSTOM_JOB_GET, _CUSTOM_JOB),
    ("POST", f"{_CUSTOM_JOBS}/{{job_id}}:cancel"): Needs(CUSTOM_JOB_CANCEL, _CUSTOM_JOB),
    ("DELETE", f"{_CUSTOM_JOBS}/{{job_id}}"): Needs(CUSTOM_JOB_DELETE, _CUSTOM_JOB),
    ("POST", _PIPELINES): Needs(PIPELINE_CREATE, _PROJECT),
    ("GET", _PIPELINES): Needs(PIPELINE_LIST, _PROJECT),
    ("GET", f"{_PIPELINES}/{{job_id}}"): Needs(PIPELINE_GET, _PIPELINE),
    ("POST", f"{_PIPELINES}/{{job_id}}:cancel"): Needs(PIPELINE_CANCEL, _PIPELINE),
    ("DELETE", f"{_PIPELINES}/{{job_id}}"): Needs(PIPELINE_DELETE, _PIPELINE),
    ("GET", _MODELS): Needs(MODEL_LIST, _PROJECT),
    ("POST", f"{_MODELS}:upload"): Needs(MODEL_UPLOAD, _PROJECT),
    ("GET", f"{_MODELS}/{{model_id}}"): Needs(MODEL_GET, _MODEL),
    ("DELETE", f"{_MODELS}/{{model_id}}"): Needs(MODEL_DELETE, _MODEL),
    ("POST", _TUNING_JOBS): Needs(TUNING_JOB_CREATE, _PROJECT),
    ("GET", _TUNING_JOBS): Needs(TUNING_JOB_LIST, _PROJECT),
    ("GET", f"{_TUNING_JOBS}/{{job_id}}"): Needs(TUNING_JOB_GET, _TUNING_JOB),
    ("POST", f"{_TUNING_JOBS}/{{job_id}}:cancel"): Needs(TUNING_JOB_CANCEL, _TUNING_JOB),
    ("DELETE", f"{_TUNING_JOBS}/{{job_id}}"): Needs(TUNING_JOB_DELETE, _TUNING_JOB),
    ("GET", _OPERATIONS): Needs(OPERATION_LIST, _PROJECT),
    ("GET", f"{_OPERATIONS}/{{operation_id}}"): Needs(OPERATION_LIST, _PROJECT),
    ("POST", f"{_OPERATIONS}/{{operation_id}}:wait"): Needs(OPERATION_LIST, _PROJECT),
    ("GET", LOCATIONS): Needs(VERTEX_LOCATION_LIST, _PROJECT),
    ("GET", LOCATION): Needs(VERTEX_LOCATION_GET, _PROJECT),
    ("GET", f"/v1/{_PROJECT}"): Needs("resourcemanager.projects.get", _PROJECT),
    ("POST", f"/v1/{_PROJECT}:getIamPolicy"): Needs("resourcemanager.projects.getIamPolicy", _PROJECT),
    ("POST", f"/v1/{_PROJECT}:setIamPolicy"): Needs("resourcemanager.projects.setIamPolicy", _PROJECT),
    ("GET", f"/v1/{_REPOSITORY}"): Needs("artifactregistry.repositories.get", _REPOSITORY),
    ("GET", f"/v1/{_REPOSITORY}:getIamPolicy"): Needs(
        "artifactregistry.repositories.getIamPolicy", _REPOSITORY
    ),
    ("POST", f"/v1/{_REPOSITORY}:setIamPolicy"): Needs(
        "artifactregistry.repositories.setIamPolicy", _REPOSITORY
    ),
    ("GET", _BUCKET_IAM): Needs("storage.buckets.getIamPolicy", "buckets/{bucket}"),
    ("PUT", _BUCKET_IAM): Needs("storage.buckets.setIamPolicy", "buckets/{bucket}"),
}
#: It names DAGs and models of all projects.
FOR_ADMINISTRATORS = frozenset({("GET", "/metrics")})
#: What nobody has a role for.
_UNLISTED = Needs("service.routes.unlisted", "the service")


def access_check(control: AccessControl) -> Callable[[Request], Awaitable[None]]:
    """Return the dependency of the whole app: it refuses who may not do what a route does."""

    async def check(request: Request) -> None:
        route = (request.method, request.scope["route"].path)
        if route in PUBLIC or route in FOR_AGENTS or route in OWN_CHECK:
            return
        needs, caller = NEEDS.get(route, _UNLISTED), request.state.caller
        asked = (caller, needs.permission, needs.resource.format_map(request.path_params))
        if control.reads_policies_of(caller):
            await run_in_threadpool(control.check, *asked)
        else:
            control.check(*asked)

    return check


# Not a plain function: those are called on another thread, which takes longer than what they do.
async def _current_caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


#: For routes that pass on who asks.
CurrentCaller = Annotated[Caller, Depends(_current_caller)]
