"""The parts that move jobs, put together: the loop, what reads containers, upkeep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from container_engines.base import Engine
from container_engines.pull_watch import PullWatch
from container_engines.swarm.agent import AgentLaunch
from training_api.cloud_logging import Severity
from training_api.job.dialect import Dialects
from training_service.access.secret_store import SecretStore
from training_service.faults.board import FaultBoard
from training_service.faults.of_jobs import FaultyJobs
from training_service.intake.cloud_storage import CLOUD_STORAGE, CloudStorage
from training_service.intake.log_collector import LogCollector
from training_service.intake.log_limiter import LogLimit
from training_service.intake.metric_collector import MetricCollector
from training_service.intake.node_streams import NodeStreams
from training_service.intake.report_sink import StoredReports
from training_service.intake.usage_sampler import UsageSampler
from training_service.lifetime import Lifetime
from training_service.loop.collectors import Collectors
from training_service.loop.disk_hold import DiskHold
from training_service.loop.launches import Launches
from training_service.loop.performer import Actions
from training_service.loop.pools import Pools
from training_service.loop.pulls import Pulls
from training_service.loop.scheduler import Scheduler
from training_service.metadata.server import MetadataServer, metadata_environment
from training_service.model.disk.disk_guard import DiskGuard
from training_service.model.heartbeat import Heartbeat
from training_service.model.host_capacity import HostCapacity
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.parts.agents import agents_metadata, stream_reading
from training_service.parts.identities import Identities
from training_service.settings import EngineKind, ServiceSettings
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore
from training_service.store.loop_connections import LoopConnections
from training_service.store.measurement_store import MeasurementStore
from training_service.store.policy_store import PolicyStore
from training_service.store.pull_store import PullStore
from training_service.store.refusal_store import RefusalStore
from training_service.store.span_store import SpanStore
from training_service.store.trial_store import TrialStore
from training_service.store.usage_store import UsageStore
from training_service.studies.stop_judge import StopJudge
from training_service.studies.studies import Studies
from training_service.studies.trial_planner import TrialPlanner
from training_service.telemetry.metrics import Metrics
from training_service.telemetry.timeline import Timeline
from training_service.upkeep.agent_watch import AgentWatch
from training_service.upkeep.assembly import MetricFolders, build_keeper
from training_service.upkeep.disk_watch import DiskWatch
from training_service.upkeep.keeper import Keeper
from training_service.upkeep.object_use import StoredObjects

if TYPE_CHECKING:
    from training_service.intake.summary_collector import SummaryCollector


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingParts:
    """
    What the parts that move jobs are made of.

    :param has_tuning: the extra ``tuning`` is installed.
    :param faults: what goes wrong on purpose; ``None``: nothing.
    :param agent: the agent of each machine; ``None``: there is one machine, or no agent.
    """

    settings: ServiceSettings
    identities: Identities
    moving: LoopConnections
    store: JobStore
    engine: Engine
    metrics: Metrics
    host: HostCapacity
    guard: DiskGuard
    heartbeat: Heartbeat
    secrets: SecretStore
    metadata: MetadataServer | None
    has_tuning: bool
    dialects: Dialects
    faults: FaultBoard | None
    agent: AgentLaunch | None = None

    def build(self) -> Lifetime:
        """Return the parts; they do not run yet."""

        def notify() -> None:
            scheduler.notify()

        loop = self.moving.loop
        measurements = MeasurementStore(self.moving.intake)
        judging = ThreadPoolExecutor(1, thread_name_prefix="early-stopping")
        # Long curves are read beside the loop, so that they take none of its connections.
        judge = StopJudge(measurements, judging, notify)
        trials = TrialStore(loop, LogStore(loop))
        studies = Studies(self.store, trials, MeasurementStore(loop), judge)
        sink = StoredReports(measurements, self._warn_uid)
        reading = stream_reading(self.settings, self.agent, self.store, sink, notify)
        reports = MetricCollector(reading, note=self._warn, reads_all=self.engine.can_read_metrics)
        summaries = self._summaries(measurements, notify)
        timeline = Timeline(SpanStore(loop))
        sampler = UsageSampler(self.engine, UsageStore(self.moving.intake))
        collector = self._log_collector(notify)
        actions = self._actions(TrialPlanner(trials, studies, self.dialects), reports, timeline)
        watch = self._disk_watch(actions, notify)
        scheduler = Scheduler(
            store=self.store,
            engine=self.engine,
            collector=Collectors(collector, reports, *summaries, observers=[timeline, sampler, watch]),
            actions=actions,
            workers=Pools(),
            metrics=self.metrics,
            dialects=self.dialects,
            capacity=lambda: self.host.capacity,
            studies=studies,
            stranger_grace=timedelta(seconds=self.settings.stranger_grace_seconds),
            faults=FaultyJobs(self.faults, self.engine) if self.faults else None,
            hold=DiskHold(self.guard.problem, self.store.note),
            heartbeat=self.heartbeat,
            placement=self.settings.placement,
        )
        return Lifetime(
            moving=self.moving,
            store=self.store,
            scheduler=scheduler,
            collector=collector,
            reports=reports,
            streams=reading if isinstance(reading, NodeStreams) else None,
            agents=[AgentWatch(self.engine)] if self.settings.engine is EngineKind.SWARM else [],
            summaries=summaries,
            sampler=sampler,
            watch=watch,
            keeper=self._keeper(reports),
            metadata=self.metadata,
            judging=judging,
            engine=self.engine,
        )

    def _warn(self, record: JobRecord, message: str) -> None:
        self.store.note(record, message, Severity.WARNING)

    def _warn_uid(self, job_uid: str, message: str) -> None:
        if record := self.store.find_by_uid(job_uid):
            self._warn(record, message)

    def _actions(self, trials: TrialPlanner, reports: MetricCollector, timeline: Timeline) -> Actions:
        settings, loop = self.settings, self.moving.loop
        # The loop's own way to the policies: a pull must not wait for the connections of requests.
        access = self.identities.image_access(PolicyStore(loop), self.engine, PullStore(loop))
        address = (
            metadata_environment(settings.metadata_host, settings.metadata_port)
            if self.metadata
            else agents_metadata(self.agent)
        )
        return Actions(
            store=self.store,
            dialects=self.dialects,
            engine=self.engine,
            metrics=self.metrics,
            trials=trials,
            refusals=RefusalStore(loop),
            pulls=Pulls(
                self.engine,
                runtimes=settings.runtime_images,
                aliases=settings.image_aliases,
                access=access,
                new_watch=partial(
                    PullWatch,
                    silent_seconds=settings.pull_silence_seconds,
                    deadline_seconds=settings.pull_deadline_seconds,
                ),
                before_engine=self.moving.check,
            ),
            launches=Launches(
                dialects=self.dialects,
                container_env={**address, **settings.container_env},
                pids_limit=settings.pids_limit,
                secrets=self.secrets,
                disk_bytes=settings.disk_limit_bytes,
                metric_folders=reports,
                runtime=settings.runtime,
            ),
            stop_grace_seconds=settings.stop_grace_seconds,
            retry_for=timedelta(seconds=settings.pull_retry_seconds),
            capacity=lambda: self.host.capacity,
            timeline=timeline,
            before_engine=self.moving.check,
        )

    def _disk_watch(self, actions: Actions, notify: Callable[[], None]) -> DiskWatch:
        def fail(record: JobRecord, reason: Reason) -> None:
            actions.fail(record, reason)
            notify()

        endpoint = self.settings.storage_endpoint
        return DiskWatch(
            self.engine,
            self.settings.disk_limit,
            dialects=self.dialects,
            metric_folders=self.settings.metrics_folder / self.store.service_id,
            # What lies in Cloud Storage takes no disk of ours.
            objects=StoredObjects(endpoint) if endpoint and endpoint != CLOUD_STORAGE else None,
            fail=fail,
        )

    def _log_collector(self, notify: Callable[[], None]) -> LogCollector:
        return LogCollector(
            self.engine,
            LogStore(self.moving.intake),
            notify,
            dialects=self.dialects,
            limit=LogLimit(
                lines_per_second=self.settings.log_lines_per_second,
                bytes_per_second=self.settings.log_bytes_per_second,
                tail_lines=self.settings.log_tail_lines,
                job_bytes=self.settings.log_job_bytes,
            ),
            on_loss=self.metrics.count_loss,
            has_room=self.guard.has_room_for_logs,
        )

    def _summaries(
        self, measurements: MeasurementStore, notify: Callable[[], None]
    ) -> Sequence[SummaryCollector]:
        # Without an address of an object store, summary files are not read.
        if not self.settings.storage_endpoint or not self.has_tuning:
            return []
        # What reads the files is the extra ``tuning``.
        from training_service.intake.summary_collector import SummaryCollector

        storage = CloudStorage(self.settings.storage_endpoint)
        buckets = self.identities.bucket_access(PolicyStore(self.moving.intake), storage)
        return [SummaryCollector(storage, measurements, notify, note=self._warn, check_bucket=buckets.check)]

    def _keeper(self, reports: MetricCollector) -> Keeper:
        return build_keeper(
            self.moving.intake,
            LogStore(self.moving.intake),
            self.settings.retention,
            engine=self.engine,
            pulls=PullStore(self.moving.intake),
            kept_images=[runtime.image for runtime in self.settings.runtime_images.values()],
            folders=MetricFolders(
                self.settings.metrics_folder / self.store.service_id, self.store.active_uids, reports.remove
            ),
            metrics=self.metrics,
        )
