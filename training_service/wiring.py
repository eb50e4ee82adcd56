"""The parts of the service, put together."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

from fastapi import FastAPI

from container_engines.base import Engine
from container_engines.docker.engine import DockerEngine
from container_engines.swarm.agent import AgentLaunch
from container_engines.swarm.engine import SwarmEngine
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.registry import DIALECTS
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.job.job_spec import JobSpec
from training_api.version import __version__
from training_service.access.agent_token import AgentTokens
from training_service.access.secret_store import SecretStore
from training_service.api.agents.reports import AgentApi
from training_service.api.app import TRUSTED_HOSTS, create_app
from training_service.api.ml_v1.routes import ml_v1_routers
from training_service.api.registry import registry_router
from training_service.api.token import token_router
from training_service.api.vertex_v1.error_tail import ErrorTail
from training_service.api.vertex_v1.job_methods import CustomJobs
from training_service.api.vertex_v1.operations import Operations
from training_service.api.vertex_v1.pipelines.model_methods import Models
from training_service.api.vertex_v1.pipelines.pipeline_methods import TrainingPipelines
from training_service.api.vertex_v1.project_numbers import ProjectIds
from training_service.api.vertex_v1.routes import vertex_v1_routers
from training_service.api.vertex_v1.tuning_methods import HyperparameterTuningJobs
from training_service.faults.board import FaultBoard
from training_service.intake.cloud_storage import CloudStorage
from training_service.intake.metric_collector import check_metrics_can_be_read
from training_service.loop.launches import own_variables
from training_service.metadata.server import metadata_environment
from training_service.model.container_runtimes import check_runtimes
from training_service.model.disk.disk_guard import DiskGuard
from training_service.model.heartbeat import Heartbeat
from training_service.model.host_capacity import HostCapacity, within
from training_service.parts.agents import agent_launch
from training_service.parts.identities import Identities
from training_service.parts.moving import MovingParts
from training_service.parts.vertex_ports import vertex_ports
from training_service.settings import EngineKind, ServiceSettings
from training_service.store.audit_store import AuditStore
from training_service.store.database import Databases, open_databases
from training_service.store.ended.ended_jobs import EndedJob, EndedJobs
from training_service.store.jobs.job_search import SEARCHED_TOO, JobSearch
from training_service.store.jobs.job_store import JobStore
from training_service.store.jobs.success_store import SuccessStore
from training_service.store.leadership import Role
from training_service.store.logs.log_store import LogStore
from training_service.store.loop_connections import LoopConnections
from training_service.store.measurement_store import MeasurementStore
from training_service.store.pipelines.model_store import ModelStore
from training_service.store.pipelines.pipeline_store import PipelineStore
from training_service.store.policy_store import PolicyStore
from training_service.store.span_store import SpanStore
from training_service.store.store_probe import store_probe
from training_service.store.trial_store import TrialStore
from training_service.store.usage_store import UsageStore
from training_service.studies.installed import (
    check_packages_can_be_pinned,
    check_studies_can_continue,
    check_tuning_is_installed,
    missing_for_tuning,
)
from training_service.studies.output import TuningOutputs
from training_service.telemetry.gauges import ServiceGauges
from training_service.telemetry.health_gauges import HealthGauges
from training_service.telemetry.metrics import Metrics
from training_service.upkeep.tasks import remove_batch
from training_service.use_cases.any_job import AnyJob
from training_service.use_cases.curve_book import CurveBook
from training_service.use_cases.fleet_reports import Reports
from training_service.use_cases.health import Health
from training_service.use_cases.history_book import HistoryBook
from training_service.use_cases.job_policies import JobPolicies
from training_service.use_cases.job_removal import JobRemoval
from training_service.use_cases.jobs import Jobs
from training_service.use_cases.object_access import ObjectAccess
from training_service.use_cases.package_pins import PackagePins
from training_service.use_cases.policies import Policies

#: How long reports and metrics wait for an engine that may hang; Prometheus' own patience is ten seconds.
_CAPACITY_SECONDS = 3.0


def build_service(
    settings: ServiceSettings,
    engine: Engine | None = None,
    databases: Databases | None = None,
    on_lost: Callable[[], None] = lambda: signal.raise_signal(signal.SIGTERM),
) -> FastAPI:
    """
    Return the app of a whole service; its scheduler lives as long as the app runs.

    :param engine: for tests; by default that of ``settings``.
    :param databases: for tests; by default those of ``settings``.
    :param on_lost: ends the process; called when another service has taken the jobs over, or when
        the database hangs.
    :raises EngineError: the engine lacks a container runtime of ``settings``.
    :raises CertificatesUnusable: the certificate for Vertex AI's names cannot be written.
    :raises InvalidAuthority: the file of the agents' authority is none.
    :raises InvalidTokensFile: the tokens file is needed and cannot be used.
    :raises InvalidSigningKey: the signing key cannot be used.
    :raises TuningNotInstalled: the database has a tuning job, and the extra ``tuning`` is not installed.
    :raises DatabaseSilent: the database keeps the connection and answers nothing.
    """
    identities = Identities.of(settings, DIALECTS)
    opened = databases or open_databases(
        settings.database_url, statement_seconds=settings.api_statement_seconds
    )
    # Many parts read from the database when they are made.
    return opened.while_answered(lambda: _build(settings, identities, engine, opened, on_lost))


def _build(
    settings: ServiceSettings,
    identities: Identities,
    engine: Engine | None,
    databases: Databases,
    on_lost: Callable[[], None],
) -> FastAPI:
    moving = LoopConnections(databases, settings.lease_seconds, on_lost)
    logs = LogStore(databases.api)
    asked, store = JobStore(databases.api, logs), JobStore(moving.loop, LogStore(moving.loop))
    agent = agent_launch(settings, identities.key)
    engine = engine or _engine(settings, store.service_id, agent)
    check_runtimes(settings.runtime, engine)
    metrics = Metrics()
    metrics.watch_jobs(asked.count_by_state)
    host = HostCapacity(
        engine,
        overcommit=settings.overcommit,
        max_replicas=settings.max_replicas,
        max_networks=settings.max_networks,
        cpu_limit=settings.cpu_limit,
        memory_limit_bytes=settings.memory_limit_bytes,
        accelerators=settings.accelerators,
    )
    guard, heartbeat = DiskGuard(settings.volumes, settings.disk_floors), Heartbeat()
    missing = missing_for_tuning()
    check_studies_can_continue((job.spec for job in store.list_active()), missing)

    secrets = SecretStore(
        settings.secrets_folder,
        {*own_variables(DIALECTS), *settings.container_env, *metadata_environment("", 0)},
    )

    def check(spec: JobSpec) -> None:
        check_tuning_is_installed(spec, missing)
        if settings.storage_endpoint:
            check_packages_can_be_pinned(spec, missing)
        check_metrics_can_be_read(spec, engine)
        secrets.check(spec)
        host.check_quota(spec, DIALECTS[spec.dialect])

    callers = identities.job_callers(engine, asked)
    faults = FaultBoard() if settings.fault_injection else None
    lifetime = MovingParts(
        settings=settings,
        identities=identities,
        moving=moving,
        store=store,
        engine=engine,
        metrics=metrics,
        host=host,
        guard=guard,
        heartbeat=heartbeat,
        secrets=secrets,
        metadata=identities.metadata_server(callers),
        has_tuning=not missing,
        dialects=DIALECTS,
        faults=faults,
        agent=agent,
    ).build()
    scheduler = lifetime.scheduler
    health = Health(
        store=store_probe(databases.api),
        engine=engine.ping,
        disk=guard.problem,
        loop_problem=lambda: scheduler.problem,
        heartbeat=heartbeat,
        live_seconds=settings.live_seconds,
        role=lambda: moving.role,
    )
    reported = MeasurementStore(databases.api)
    capacity = within(_CAPACITY_SECONDS, lambda: host.capacity)
    search = JobSearch(
        databases.api, asked.queue_positions, DIALECTS, {**ML_V1.filter_fields, **SEARCHED_TOO}
    )
    ops = Reports(
        jobs=asked,
        search=search,
        spans=SpanStore(databases.api),
        usage=UsageStore(databases.api),
        curves=CurveBook(reported),
        histories=HistoryBook(databases.api, capacity),
        measurements=reported,
        dialects=DIALECTS,
        capacity=capacity,
        hold=guard.problem,
    )
    metrics.registry.register(ServiceGauges(SuccessStore(databases.api).newest, ops.fleet, settings.volumes))
    metrics.registry.register(HealthGauges(health.is_ok, heartbeat))
    policies = PolicyStore(databases.api)
    access = identities.control(policies)
    outputs = TuningOutputs(TrialStore(databases.api, logs), reported)
    pin = _package_pins(settings, identities, policies)
    jobs = Jobs(ML_V1, asked, scheduler.notify, check, outputs, pin=pin)
    vertex_jobs = Jobs(VERTEX_V1, asked, scheduler.notify, check, outputs, pin=pin)
    ended = EndedJobs(databases.api)
    removal = JobRemoval(partial(_remove, ended, logs), ended.has_active_trial)
    operations = Operations()
    runtimes = {version: image.python_versions for version, image in settings.runtime_images.items()}
    pipelines, models = PipelineStore(databases.api), ModelStore(databases.api)
    project_ids = ProjectIds(lambda: {*asked.projects(), *pipelines.projects(), *models.projects()})
    tail = ErrorTail(logs).of
    of_vertex = (vertex_jobs, access, removal, operations, project_ids.learn, tail)
    return create_app(
        jobs=asked,
        dialects=[
            *ml_v1_routers(jobs, JobPolicies(jobs, Policies(policies)), access, runtimes),
            *vertex_v1_routers(
                CustomJobs(*of_vertex),
                HyperparameterTuningJobs(*of_vertex),
                TrainingPipelines(vertex_jobs, pipelines, access, operations, project_ids.learn, tail),
                Models(models, operations, project_ids.learn),
                operations,
            ),
        ],
        project_ids=project_ids,
        policies=Policies(policies),
        access=access,
        object_access=ObjectAccess(engine.job_at, asked, access.may, DIALECTS),
        tokens=[
            registry_router(identities.registry_tokens(access), identities.authenticator),
            token_router(identities.authenticator),
        ],
        logs=logs,
        # Not those of requests, whose every commit waits for the disk.
        audit=AuditStore(databases.intake),
        reports=ops,
        any_job=AnyJob(asked, search, pipelines, [jobs, vertex_jobs]),
        health=health,
        metrics=metrics,
        version=__version__,
        running=lifetime.running(),
        faults=faults,
        agents=AgentApi(
            lifetime.streams,
            engine.facts,
            callers.on,
            AgentTokens(identities.key),
            lambda: moving.role is Role.ACTIVE,
        )
        if agent and lifetime.streams and isinstance(engine, SwarmEngine)
        else None,
        trusted_hosts=[
            *TRUSTED_HOSTS,
            settings.host,
            *settings.allowed_hosts,
            *filter(None, [settings.agent_host]),
        ],
        beside=vertex_ports(settings, metrics, access.identify),
    )


def _remove(ended: EndedJobs, logs: LogStore, job: EndedJob) -> None:
    for _ in remove_batch(ended, logs, [job]):
        pass


def _package_pins(
    settings: ServiceSettings, identities: Identities, policies: PolicyStore
) -> Callable[[JobSpec], JobSpec]:
    # Without an address of an object store, nothing can be said of packages.
    if not settings.storage_endpoint:
        return lambda spec: spec
    storage = CloudStorage(settings.storage_endpoint)
    return PackagePins(storage, identities.bucket_access(policies, storage).check).pin


def _engine(settings: ServiceSettings, service_id: str, agent: AgentLaunch | None) -> Engine:
    if settings.engine is EngineKind.SWARM:
        return SwarmEngine(
            service_id, settings.docker_host, stop_grace_seconds=settings.stop_grace_seconds, agent=agent
        )
    return DockerEngine(service_id, settings.docker_host, settings.gpus, egress=settings.reach)
