"""
An ASGI middleware that writes each change and each refusal into the audit log.

It does so before the answer. An entry has the caller, the method, the resource and the outcome; never a
token, a header, a query or a body. Reads that are answered are not noted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import structlog
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from training_service.access.decision import Caller, project_of
from training_service.access.roles import (
    CUSTOM_JOB_CANCEL,
    CUSTOM_JOB_CREATE,
    CUSTOM_JOB_DELETE,
    CUSTOM_JOB_GET,
    CUSTOM_JOB_LIST,
    JOB_CANCEL,
    JOB_CREATE,
    JOB_SET_POLICY,
    JOB_UPDATE,
    MODEL_DELETE,
    MODEL_GET,
    MODEL_LIST,
    MODEL_UPLOAD,
    PIPELINE_CANCEL,
    PIPELINE_CREATE,
    PIPELINE_DELETE,
    PIPELINE_GET,
    PIPELINE_LIST,
    POLICY_WRITES,
    TUNING_JOB_CANCEL,
    TUNING_JOB_CREATE,
    TUNING_JOB_DELETE,
    TUNING_JOB_GET,
    TUNING_JOB_LIST,
)
from training_service.api.access import NEEDS, OWN_CHECK, PUBLIC, Needs
from training_service.model.projects import PROJECT_PATTERN
from training_service.store.audit_store import AuditEntry, AuditStore

logger = structlog.get_logger(__name__)

_REFUSED = (401, 403)
_FAILED = 400
_READING = ("GET", "HEAD", "OPTIONS")
_CHANGES = POLICY_WRITES | {
    *(JOB_CREATE, JOB_CANCEL, JOB_UPDATE),
    *(CUSTOM_JOB_CREATE, CUSTOM_JOB_CANCEL, CUSTOM_JOB_DELETE),
    *(PIPELINE_CREATE, PIPELINE_CANCEL, PIPELINE_DELETE, MODEL_DELETE, MODEL_UPLOAD),
    *(TUNING_JOB_CREATE, TUNING_JOB_CANCEL, TUNING_JOB_DELETE),
}
#: Names of methods as Cloud Audit Logs has them; of others the permission is the name.
_METHODS = {
    JOB_CREATE: "google.cloud.ml.v1.JobService.CreateJob",
    JOB_CANCEL: "google.cloud.ml.v1.JobService.CancelJob",
    JOB_UPDATE: "google.cloud.ml.v1.JobService.UpdateJob",
    "ml.jobs.get": "google.cloud.ml.v1.JobService.GetJob",
    "ml.jobs.list": "google.cloud.ml.v1.JobService.ListJobs",
    CUSTOM_JOB_CREATE: "google.cloud.aiplatform.v1.JobService.CreateCustomJob",
    CUSTOM_JOB_GET: "google.cloud.aiplatform.v1.JobService.GetCustomJob",
    CUSTOM_JOB_LIST: "google.cloud.aiplatform.v1.JobService.ListCustomJobs",
    CUSTOM_JOB_CANCEL: "google.cloud.aiplatform.v1.JobService.CancelCustomJob",
    CUSTOM_JOB_DELETE: "google.cloud.aiplatform.v1.JobService.DeleteCustomJob",
    PIPELINE_CREATE: "google.cloud.aiplatform.v1.PipelineService.CreateTrainingPipeline",
    PIPELINE_GET: "google.cloud.aiplatform.v1.PipelineService.GetTrainingPipeline",
    PIPELINE_LIST: "google.cloud.aiplatform.v1.PipelineService.ListTrainingPipelines",
    PIPELINE_CANCEL: "google.cloud.aiplatform.v1.PipelineService.CancelTrainingPipeline",
    PIPELINE_DELETE: "google.cloud.aiplatform.v1.PipelineService.DeleteTrainingPipeline",
    MODEL_GET: "google.cloud.aiplatform.v1.ModelService.GetModel",
    MODEL_LIST: "google.cloud.aiplatform.v1.ModelService.ListModels",
    MODEL_DELETE: "google.cloud.aiplatform.v1.ModelService.DeleteModel",
    MODEL_UPLOAD: "google.cloud.aiplatform.v1.ModelService.UploadModel",
    TUNING_JOB_CREATE: "google.cloud.aiplatform.v1.JobService.CreateHyperparameterTuningJob",
    TUNING_JOB_GET: "google.cloud.aiplatform.v1.JobService.GetHyperparameterTuningJob",
    TUNING_JOB_LIST: "google.cloud.aiplatform.v1.JobService.ListHyperparameterTuningJobs",
    TUNING_JOB_CANCEL: "google.cloud.aiplatform.v1.JobService.CancelHyperparameterTuningJob",
    TUNING_JOB_DELETE: "google.cloud.aiplatform.v1.JobService.DeleteHyperparameterTuningJob",
    JOB_SET_POLICY: "google.iam.v1.IAMPolicy.SetIamPolicy",
    "ml.jobs.getIamPolicy": "google.iam.v1.IAMPolicy.GetIamPolicy",
    "resourcemanager.projects.setIamPolicy": "SetIamPolicy",
    "artifactregistry.repositories.setIamPolicy": "google.iam.v1.IAMPolicy.SetIamPolicy",
    "storage.buckets.setIamPolicy": "storage.setIamPermissions",
}
_SERVICES = {"resourcemanager": "cloudresourcemanager"}
#: Of HTTP -> google.rpc.Code.
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 412: 9, 429: 8, 501: 12, 503: 14}
_PROJECT = re.compile(r"/projects/([^/:]+)")
_LONGEST_NAME = 512
#: Failures that are noted: so many at once, and so many a second. What was done is always noted.
_MOST_FAILURES, _FAILURES_PER_SECOND = 120, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """
    What a request is about, where only its handler knows that.

    :param principal: default: the caller.
    :param project: default: that of ``resource``.
    :param refused: the answer says no, whatever its status.
    """

    permission: str
    resource: str
    principal: str = ""
    project: str = ""
    refused: bool = False


def note_deed(request: Request, deed: Deed | None) -> None:
    """
    Have the audit log note this request, and as what.

    :param deed: ``None``: it is nothing to note, unless refused.
    """
    request.state.deed = deed


class AuditLog:
    """Writes the entries of all requests of ``app``."""

    def __init__(self, app: ASGIApp, store: AuditStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._store = store
        self._failures = _Budget(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        is_answered = False

        async def note_and_send(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                await self._note(scope, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, note_and_send)
        except Exception:
            if not is_answered:
                await self._note(scope, 500)
            raise

    async def _note(self, scope: Scope, status: int) -> None:
        deed: Deed | None = scope["state"].get("deed")
        if deed is None:
            if status not in _REFUSED and not _changes(scope):
                return
            needs = NEEDS.get(_route(scope)) or Needs("", quote(scope["path"], safe="/:"))
            resource = needs.resource.format_map(scope.get("path_params") or {})
            deed = Deed(permission=needs.permission, resource=resource)
        if deed.refused and status < _FAILED:
            status = 403
        dropped = self._failures.take() if status >= _FAILED else 0
        if dropped is None:
            return
        entry = _entry(scope, deed, status, dropped)
        try:
            await run_in_threadpool(self._store.append, entry)
        except Exception as error:
            # The request was answered by what it did. The service goes on without its audit log.
            logger.warning(
                "not in the audit log", method=entry.payload["methodName"], reason=repr(error)[:300]
            )


class _Budget:
    """How many failures may be noted now: strangers can cause any number of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left, self._at, self._dropped = float(_MOST_FAILURES), clock(), 0

    def take(self) -> int | None:
        """Take one, and return how many were dropped since the last one; ``None``: this one is, too."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * _FAILURES_PER_SECOND, _MOST_FAILURES)
        self._at = now
        if self._left < 1:
            self._dropped += 1
            return None
        self._left -= 1
        dropped, self._dropped = self._dropped, 0
        return dropped


def _route(scope: Scope) -> tuple[str, str]:
    return scope["method"], getattr(scope.get("route"), "path", "")


def _changes(scope: Scope) -> bool:
    route = _route(scope)
    if needs := NEEDS.get(route):
        return needs.permission in _CHANGES
    return bool(route[1]) and route not in PUBLIC | OWN_CHECK and scope["method"] not in _READING


def _entry(scope: Scope, deed: Deed, status: int, dropped: int) -> AuditEntry:
    caller: Caller = scope["state"].get("caller") or Caller()
    principal = deed.principal or caller.principal
    resource = deed.resource[:_LONGEST_NAME]
    family = deed.permission.partition(".")[0]
    payload: dict[str, Any] = {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "serviceName": f"{_SERVICES.get(family, family) or 'ml'}.googleapis.com",
        "methodName": _METHODS.get(deed.permission) or deed.permission or _named(scope),
        "resourceName": resource,
        "authenticationInfo": {"principalEmail": principal.partition(":")[2], "principalSubject": principal}
        if principal
        else {},
        "requestMetadata": {"callerIp": scope["client"][0] if scope.get("client") else ""},
        "status": {"code": _CODES.get(status, 13 if status >= 500 else 2)} if status >= _FAILED else {},
    }
    if deed.permission:
        is_granted = status not in _REFUSED
        payload["authorizationInfo"] = [
            {"resource": resource, "permission": deed.permission, "granted": is_granted}
        ]
    if dropped:
        payload["metadata"] = {"failuresNotNoted": dropped}
    project = deed.project or project_of(deed.resource) or _project_in(scope["path"])
    if not re.fullmatch(PROJECT_PATTERN, project):
        project = ""
    return AuditEntry(project=project, payload=payload, failed=status >= _FAILED)


def _named(scope: Scope) -> str:
    """Return a name for what has none: the request's method, and the route if it has one."""
    method, route = _route(scope)
    return f"{method[:20]} {route}".rstrip()


def _project_in(path: str) -> str:
    found = _PROJECT.search(path)
    return found[1] if found else ""
