"""The parts of the service, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from fastapi import FastAPI

from container_engines.base import Engine
from container_engines.docker.engine import DockerEngine
from container_engines.swarm.engine import SwarmEngine
from training_api.dialects.ml_v1.log_wire import Severity
from training_api.job.job_spec import JobSpec
from training_api.version import __version__
from training_service.access.control import AccessControl
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.image_access import CheckedImages
from training_service.access.registry_tokens import RegistryTokens
from training_service.access.signing_key import SigningKey
from training_service.access.tokens_file import InvalidTokensFile, read_tokens_file
from training_service.api.app import TRUSTED_HOSTS, create_app
from training_service.api.registry import registry_router
from training_service.faults.board import FaultBoard
from training_service.faults.of_jobs import FaultyJobs
from training_service.intake.log_collector import LogCollector
from training_service.intake.log_limiter import LogLimit
from training_service.intake.metric_collector import MetricCollector, check_metrics_can_be_read
from training_service.intake.usage_sampler import UsageSampler
from training_service.loop.collectors import Collectors
from training_service.loop.performer import Actions
from training_service.loop.scheduler import Scheduler
from training_service.metadata.app import create_metadata_app
from training_service.metadata.identities import JobIdentities
from training_service.metadata.server import MetadataServer, metadata_environment
from training_service.model.host_capacity import HostCapacity
from training_service.model.records import JobRecord
from training_service.settings import EngineKind, ServiceSettings
from training_service.store.database import open_database, read_meta
from training_service.store.job_search import JobSearch
from training_service.store.job_store import JobStore
from training_service.store.log_store import LogStore
from training_service.store.measurement_store import MeasurementStore
from training_service.store.policy_store import PolicyStore
from training_service.store.span_store import SpanStore
from training_service.store.trial_store import TrialStore
from training_service.store.usage_store import UsageStore
from training_service.studies.installed import (
    check_studies_can_continue,
    check_tuning_is_installed,
    missing_for_tuning,
)
from training_service.studies.output import TuningOutputs
from training_service.studies.studies import Studies
from training_service.studies.trial_planner import TrialPlanner
from training_service.telemetry.gauges import ServiceGauges
from training_service.telemetry.metrics import Metrics
from training_service.telemetry.timeline import Timeline
from training_service.use_cases.curve_book import CurveBook
from training_service.use_cases.fleet_reports import Reports
from training_service.use_cases.job_policies import JobPolicies
from training_service.use_cases.jobs import Jobs
from training_service.use_cases.policies import Policies

if TYPE_CHECKING:
    from training_service.intake.summary_collector import SummaryCollector

#: Slow actions side by side: pulls, starts, stops and removals of different jobs.
_WORKERS = 16

logger = structlog.get_logger(__name__)


def build_service(settings: ServiceSettings, engine: Engine | None = None) -> FastAPI:
    """
    Return the app of a whole service; its scheduler lives as long as the app runs.

    :param engine: for tests; by default that of ``settings``.
    :raises InvalidTokensFile: the tokens file is needed and cannot be used.
    :raises InvalidSigningKey: the signing key cannot be used.
    :raises TuningNotInstalled: the database has a tuning job, and the extra ``tuning`` is not installed.
    """
    key = SigningKey.load_or_make(settings.key_folder) if settings.key_folder else SigningKey.generate()
    identities = IdentityTokens(key)
    authenticator = _authenticator(settings, identities)
    database = open_database(settings.database_url)
    policies = PolicyStore(database)
    logs = LogStore(database)
    store = JobStore(database, logs)
    service_id = read_meta(database, "service_id")
    engine = engine or _engine(settings, service_id)
    metrics = Metrics()
    metrics.watch_jobs(store.count_by_state)
    host = HostCapacity(
        engine,
        overcommit=settings.overcommit,
        max_replicas=settings.max_replicas,
        cpu_limit=settings.cpu_limit,
        memory_limit_bytes=settings.memory_limit_bytes,
        accelerators=settings.accelerators,
    )
    metadata = _metadata_server(settings, JobIdentities(engine, store), identities)
    access = AccessControl(policies, authenticator, is_required=settings.require_auth)
    registry_tokens = RegistryTokens(key, access)
    measurements = MeasurementStore(database)
    trials = TrialStore(database, logs)
    studies = Studies(store, trials, measurements)

    def notify() -> None:
        scheduler.notify()

    missing = missing_for_tuning()
    check_studies_can_continue((job.spec for job in store.list_active()), missing)

    def check(spec: JobSpec) -> None:
        check_tuning_is_installed(spec, missing)
        check_metrics_can_be_read(spec, engine)
        host.check_quota(spec)

    def warn(record: JobRecord, message: str) -> None:
        store.note(record, message, Severity.WARNING)

    reports = MetricCollector(
        settings.metrics_folder / service_id,
        measurements,
        notify,
        note=warn,
        reads_all=engine.can_read_metrics,
    )
    # Without an address of an object store, summary files are not read.
    summaries = (
        [_summary_collector(settings.storage_endpoint, measurements, notify, warn)]
        if settings.storage_endpoint and not missing
        else []
    )
    search = JobSearch(database, store.queue_positions)
    spans, usage = SpanStore(database), UsageStore(database)
    timeline, sampler = Timeline(spans), UsageSampler(engine, usage)
    actions = Actions(
        store=store,
        engine=engine,
        metrics=metrics,
        trials=TrialPlanner(trials, studies),
        container_env=(
            metadata_environment(settings.metadata_host, settings.metadata_port) if metadata else {}
        )
        | settings.container_env,
        stop_grace_seconds=settings.stop_grace_seconds,
        retry_for=timedelta(seconds=settings.pull_retry_seconds),
        pids_limit=settings.pids_limit,
        capacity=lambda: host.capacity,
        runtimes=settings.runtime_images,
        image_access=CheckedImages(settings.registry, registry_tokens) if settings.registry else None,
        metric_folders=reports,
        timeline=timeline,
    )
    executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="action")
    collector = LogCollector(
        engine,
        logs,
        notify,
        limit=LogLimit(
            lines_per_second=settings.log_lines_per_second,
            bytes_per_second=settings.log_bytes_per_second,
            tail_lines=settings.log_tail_lines,
            job_bytes=settings.log_job_bytes,
        ),
        on_loss=metrics.count_loss,
    )
    faults = FaultBoard() if settings.fault_injection else None
    scheduler = Scheduler(
        store=store,
        engine=engine,
        collector=Collectors(collector, reports, *summaries, observers=[timeline, sampler]),
        actions=actions,
        executor=executor,
        metrics=metrics,
        capacity=lambda: host.capacity,
        studies=studies,
        faults=FaultyJobs(faults, engine) if faults else None,
    )

    ops = Reports(
        jobs=store,
        search=search,
        spans=spans,
        usage=usage,
        curves=CurveBook(measurements),
        capacity=lambda: host.capacity,
    )
    metrics.registry.register(ServiceGauges(search, ops.fleet, settings.volumes))

    @contextmanager
    def running() -> Iterator[None]:
        if metadata:
            metadata.start()
        collector.start()
        for summary in summaries:
            summary.start()
        reports.start(job.uid for job in store.list_active())
        scheduler.start()
        sampler.start()
        counts = store.count_by_state()
        adopted = sum(count for state, count in counts.items() if not state.is_terminal)
        logger.info("ready", adopted_jobs=adopted, database=database.url.render_as_string())
        try:
            yield
        finally:
            scheduler.stop()
            sampler.stop()
            collector.stop()
            reports.stop()
            for summary in summaries:
                summary.stop()
            if metadata:
                metadata.stop()
            executor.shutdown(wait=False, cancel_futures=True)
            engine.close()
            logger.info("stopped; running containers go on and are adopted at the next start")

    return create_app(
        jobs=Jobs(
            store,
            scheduler.notify,
            check,
            TuningOutputs(trials, measurements),
            runtimes={version: image.python_versions for version, image in settings.runtime_images.items()},
        ),
        job_policies=JobPolicies(store, Policies(policies)),
        policies=Policies(policies),
        access=access,
        registry=registry_router(registry_tokens, authenticator),
        logs=logs,
        reports=ops,
        engine=engine,
        metrics=metrics,
        version=__version__,
        loop_problem=lambda: scheduler.problem,
        running=running(),
        faults=faults,
        trusted_hosts=[*TRUSTED_HOSTS, settings.host, *settings.allowed_hosts],
    )


def _summary_collector(
    endpoint: str,
    measurements: MeasurementStore,
    on_drained: Callable[[], None],
    warn: Callable[[JobRecord, str], None],
) -> SummaryCollector:
    # What reads the files is the extra ``tuning``.
    from training_service.intake.summary_collector import SummaryCollector
    from training_service.intake.summary_files import CloudStorage

    return SummaryCollector(CloudStorage(endpoint), measurements, on_drained, note=warn)


def _engine(settings: ServiceSettings, service_id: str) -> Engine:
    if settings.engine is EngineKind.SWARM:
        return SwarmEngine(service_id, settings.docker_host, stop_grace_seconds=settings.stop_grace_seconds)
    return DockerEngine(service_id, settings.docker_host, settings.gpus)


def _authenticator(settings: ServiceSettings, identities: IdentityTokens) -> Authenticator:
    if settings.require_auth and settings.tokens_file is None:
        raise InvalidTokensFile("--require-auth needs --tokens-file: without one, nobody may do anything")
    callers = read_tokens_file(settings.tokens_file) if settings.tokens_file else {}
    if settings.require_auth and not any(caller.is_admin for caller in callers.values()):
        logger.warning(
            "the tokens file has no administrator: nobody may set a first policy",
            file=str(settings.tokens_file),
        )
    return Authenticator(callers, identities)


def _metadata_server(
    settings: ServiceSettings, jobs: JobIdentities, identities: IdentityTokens
) -> MetadataServer | None:
    # On several machines nobody can tell a container by its address.
    if not settings.metadata_host or settings.engine is EngineKind.SWARM:
        return None
    app = create_metadata_app(jobs.find, identities)
    return MetadataServer(app, settings.metadata_host, settings.metadata_port)
