"""The HTTP surface: all routers, error forms, the measuring of requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)

from fastapi import Depends, FastAPI, Request
from starlette.exceptions import HTTPException

from training_service.access.control import AccessControl
from training_service.api.access import access_check
from training_service.api.agents.identities import agent_identities_router
from training_service.api.agents.reports import AgentApi, agents_router
from training_service.api.bucket_iam import StorageErrorBody, bucket_iam_router
from training_service.api.database_errors import install_database_errors
from training_service.api.errors import install_error_handlers
from training_service.api.faults import faults_router
from training_service.api.health import health_router
from training_service.api.job_log import job_log_router
from training_service.api.logging import logging_router
from training_service.api.middleware.agent_gate import AgentGate
from training_service.api.middleware.audit_log import AuditLog
from training_service.api.middleware.body_limit import BodyLimit
from training_service.api.middleware.gate import Gate
from training_service.api.middleware.injected_faults import FaultyCalls
from training_service.api.middleware.measured import Measured
from training_service.api.object_access import object_access_router
from training_service.api.openapi import COMMON_ERRORS, correct_openapi
from training_service.api.ops import ops_router
from training_service.api.ops_job import ops_job_router
from training_service.api.policies import artifact_registry_router, resource_manager_router
from training_service.api.registry import RegistryErrorBody
from training_service.api.routes import Routes
from training_service.api.token import TokenError
from training_service.api.vertex_v1.project_numbers import ProjectIds, ProjectNumbers
from training_service.faults.board import FaultBoard
from training_service.store.audit_store import AuditStore
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore
from training_service.telemetry.metrics import Metrics
from training_service.use_cases.any_job import AnyJob
from training_service.use_cases.fleet_reports import Reports
from training_service.use_cases.health import Health
from training_service.use_cases.object_access import ObjectAccess
from training_service.use_cases.policies import Policies

#: A page of the web that a user visits must not reach the service under a name of its own (DNS rebinding).
TRUSTED_HOSTS = ["127.0.0.1", "localhost", "::1", "host.docker.internal"]


def create_app(
    *,
    jobs: JobStore,
    dialects: Sequence[Routes],
    policies: Policies,
    access: AccessControl,
    object_access: ObjectAccess,
    tokens: Sequence[Routes],
    logs: LogStore,
    audit: AuditStore,
    reports: Reports,
    any_job: AnyJob,
    health: Health,
    metrics: Metrics,
    version: str,
    running: AbstractContextManager[object],
    trusted_hosts: list[str],
    project_ids: ProjectIds,
    faults: FaultBoard | None = None,
    agents: AgentApi | None = None,
    beside: Callable[[FastAPI], AbstractAsyncContextManager[object]] = nullcontext,
) -> FastAPI:
    """
    Return the service's app.

    :param jobs: those whose logs are shown, of all dialects.
    :param dialects: the routes of each dialect.
    :param tokens: the routes of the token endpoints: the registry's, and that of service accounts.
    :param faults: what goes wrong on purpose; default: nothing, and it cannot be set.
    :param agents: serves the agents of machines; default: there are none.
    :param running: entered when the app starts, left when it stops: the scheduler's life.
    :param beside: entered after that, and left before: what else serves the app.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with running:
            async with beside(app):
                yield

    app = FastAPI(
        title="Training service",
        description="AI Platform Training's v1 API on one machine.",
        version=version,
        lifespan=lifespan,
        responses=COMMON_ERRORS,
        dependencies=[Depends(_path_check), Depends(access_check(access))],
        # Pages that load a script from outside.
        docs_url=None,
        redoc_url=None,
        # Browsers send a body without a type, or as text, to other sites without asking them first.
        strict_content_type=True,
    )
    for routes in (
        *dialects,
        *tokens,
        resource_manager_router(policies, access),
        artifact_registry_router(policies, access),
        bucket_iam_router(policies, access),
        logging_router(logs, audit, access),
        job_log_router(jobs, logs),
        ops_router(reports),
        ops_job_router(any_job),
        object_access_router(object_access),
        health_router(health, metrics.registry, version),
        *([faults_router(faults)] if faults is not None else []),
        *(
            [agents_router(agents.streams, agents.facts), agent_identities_router(agents.find_replica)]
            if agents is not None
            else []
        ),
    ):
        routes.add_to(app)
    install_error_handlers(app)
    install_database_errors(app)
    correct_openapi(app, StorageErrorBody, RegistryErrorBody, TokenError)

    # Before the next one, and so within it: what is refused is measured, too. The last one is asked first.
    app.add_middleware(BodyLimit)
    app.add_middleware(ProjectNumbers, ids=project_ids)
    if agents is not None:
        app.add_middleware(AgentGate, tokens=agents.tokens, is_active=agents.is_active)
    app.add_middleware(Gate, control=access, trusted_hosts=trusted_hosts)
    app.add_middleware(AuditLog, store=audit)

    app.add_middleware(Measured, metrics=metrics)
    if faults is not None:
        # Last, and so around all else: it may break an answer off.
        app.add_middleware(FaultyCalls, board=faults)
    return app


async def _path_check(request: Request) -> None:
    """PostgreSQL has no NUL in texts, and would fail where it is asked for one."""
    if "\x00" in request.scope["path"]:
        raise HTTPException(400, "the path must not contain NUL, got '%00'; leave it out")
