"""A whole service in one thread: memory engine, virtual clock, every slow action at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from container_engines.base import ObservedReplica
from container_engines.memory.engine import Behaviour, MemoryEngine
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.dialects.registry import DIALECTS
from training_api.errors import EngineError, EngineUnavailable
from training_api.job.cluster import ReplicaRole
from training_api.job.dialect import Dialects
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.job.placement import Placement
from training_api.states import JobState, ReplicaState
from training_service.access.image_access import ImageAccess
from training_service.access.secret_store import SecretStore
from training_service.api.ml_v1.wire_jobs import WireJobs
from training_service.intake.log_batch import LogBatch
from training_service.intake.log_collector import log_source
from training_service.loop.collectors import Collectors
from training_service.loop.disk_hold import DiskHold
from training_service.loop.launches import Launches
from training_service.loop.performer import Actions
from training_service.loop.pools import Workers
from training_service.loop.pulls import Pulls
from training_service.loop.scheduler import Scheduler
from training_service.model.heartbeat import Heartbeat
from training_service.model.host_capacity import HostCapacity
from training_service.model.images.runtimes import RuntimeImage
from training_service.model.records import JobRecord
from training_service.model.work import Work
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore
from training_service.store.measurement_store import Measurement, MeasurementStore
from training_service.store.refusal_store import RefusalStore
from training_service.store.span_store import SpanStore
from training_service.store.trial_store import TrialStore
from training_service.studies.output import TuningOutputs
from training_service.studies.stop_judge import StopJudge
from training_service.studies.studies import Studies
from training_service.studies.trial_planner import TrialPlanner
from training_service.telemetry.metrics import Metrics
from training_service.telemetry.timeline import Timeline
from training_service.use_cases.jobs import Jobs

IMAGE = "registry.test/project/trainer:1"
PROJECT = "project"


class InlineWorkers:
    """Does what it is given at once."""

    def start(self, work: Work, do: Callable[[], None], after: Callable[[], None]) -> bool:
        do()
        after()
        return True


class InlineExecutor(Executor):
    """Runs what it is given at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class InlineCollector:
    """Reads a container's log when it has ended, and its reports at each look."""

    def __init__(
        self, engine: MemoryEngine, store: LogStore, measurements: MeasurementStore, dialects: Dialects
    ) -> None:
        self._engine = engine
        self._dialects = dialects
        self._store = store
        self._measurements = measurements
        self._reported: Counter[str] = Counter()
        self.drained: frozenset[str] = frozenset()

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        if record.trial and observed.replica.role is ReplicaRole.MASTER:
            self._store_reports(record, observed)
        if observed.state is not ReplicaState.EXITED or observed.container_id in self.drained:
            return
        batch = LogBatch(
            self._store, log_source(record, observed, self._dialects), started_at=observed.started_at
        )
        batch.rewind()
        try:
            for line in self._engine.read_logs(observed.container_id, batch.since_ns):
                batch.add(line)
        except EngineUnavailable:
            return
        except EngineError:
            pass  # the container is gone, and there is nothing to read
        batch.flush()
        self.drained |= {observed.container_id}

    def _store_reports(self, record: JobRecord, observed: ObservedReplica) -> None:
        reports = self._engine.reports(observed.container_id)
        first = self._reported[observed.container_id]
        self._measurements.append(
            [
                Measurement(job_uid=record.uid, source=str(observed.attempt), sequence=place, report=report)
                for place, report in enumerate(reports[first:], first)
            ]
        )
        self._reported[observed.container_id] = len(reports)

    def forget(self, present: set[str]) -> None:
        self.drained &= present


@dataclass
class World:
    """The service's parts around one database; ``restart`` is a kill and a new start."""

    database: sa.Engine
    engine: MemoryEngine = field(default_factory=MemoryEngine)
    max_replicas: int = 2
    #: Nothing but the number of replicas bounds what runs side by side, unless a test wants it otherwise.
    overcommit: float = 1000
    placement: Placement = Placement.SPREAD
    pull_retry: timedelta = timedelta(seconds=60)
    retry_seconds: float = 0.0
    workers: Workers = field(default_factory=InlineWorkers)
    runtimes: dict[str, RuntimeImage] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    image_access: ImageAccess | None = None
    stranger_grace: timedelta = timedelta()
    #: Whose secrets jobs get.
    secrets: SecretStore = field(default_factory=lambda: SecretStore(Path("/nonexistent/secrets")))
    #: As :class:`Actions` has it.
    before_engine: Callable[[], None] = lambda: None
    #: What the loop knows; requests are of ml.v1.
    dialects: Dialects = field(default_factory=lambda: DIALECTS)
    #: Why no job is admitted, as of the guard of the disks.
    disk_problem: str = ""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all that is not in the database or on the engine."""
        clock = self.engine.clock
        self.logs = LogStore(self.database, clock)
        self.store = JobStore(self.database, self.logs, clock)
        self.metrics = Metrics()
        self.heartbeat = Heartbeat(clock)
        host = HostCapacity(self.engine, overcommit=self.overcommit, max_replicas=self.max_replicas)
        self.measurements = MeasurementStore(self.database)
        self.trials = TrialStore(self.database, self.logs, clock)
        studies = Studies(
            self.store,
            self.trials,
            self.measurements,
            StopJudge(self.measurements, InlineExecutor(), lambda: None),
        )
        self.spans = SpanStore(self.database)
        timeline = Timeline(self.spans, clock)
        self.actions = Actions(
            store=self.store,
            dialects=self.dialects,
            trials=TrialPlanner(self.trials, studies, self.dialects),
            refusals=RefusalStore(self.database),
            engine=self.engine,
            metrics=self.metrics,
            pulls=Pulls(
                self.engine,
                runtimes=self.runtimes,
                aliases=self.aliases,
                access=self.image_access,
                before_engine=lambda: self.before_engine(),
            ),
            launches=Launches(
                dialects=self.dialects,
                container_env={"STORAGE_EMULATOR_HOST": "http://store.test"},
                pids_limit=100,
                secrets=self.secrets,
            ),
            stop_grace_seconds=10,
            retry_for=self.pull_retry,
            capacity=lambda: host.capacity,
            timeline=timeline,
            before_engine=lambda: self.before_engine(),
            clock=clock,
        )
        self.scheduler = Scheduler(
            store=self.store,
            engine=self.engine,
            collector=Collectors(
                InlineCollector(self.engine, self.logs, self.measurements, self.dialects),
                observers=[timeline],
            ),
            actions=self.actions,
            workers=self.workers,
            metrics=self.metrics,
            dialects=self.dialects,
            capacity=lambda: host.capacity,
            studies=studies,
            stranger_grace=self.stranger_grace,
            hold=DiskHold(lambda: self.disk_problem, self.store.note),
            heartbeat=self.heartbeat,
            retry_seconds=self.retry_seconds,
            jitter=lambda: 1.0,
            placement=self.placement,
            clock=clock,
        )
        self.ml_v1_jobs = Jobs(
            ML_V1,
            self.store,
            lambda: None,
            lambda spec: host.check_quota(spec, ML_V1),
            TuningOutputs(self.trials, self.measurements),
            clock,
        )
        runtimes = {version: runtime.python_versions for version, runtime in self.runtimes.items()}
        self.jobs = WireJobs(self.ml_v1_jobs, runtimes)

    def add_image(self, behaviour: Behaviour | None = None, image: str = IMAGE) -> ImageRef:
        ref = parse_image_ref(image)
        self.engine.add_image(ref, behaviour or Behaviour())
        return ref

    def submit(self, job_id: str = "job", image: str = IMAGE, **training_input: Any) -> Job:
        training = TrainingInput(**{"master_config": ReplicaConfig(image_uri=image)} | training_input)
        return self.jobs.create(PROJECT, Job(job_id=job_id, training_input=training))

    def add_trial(self, study: JobRecord, number: int, hyperparameters: dict[str, str]) -> bool:
        """Store a trial, as the loop does."""
        made = ML_V1.trial(study.spec, study.request, number, hyperparameters)
        return self.trials.insert(study, number, hyperparameters, made)

    def get(self, job_id: str = "job") -> Job:
        return self.jobs.get(PROJECT, job_id)

    def state(self, job_id: str = "job") -> JobState | None:
        return self.get(job_id).state

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.scheduler.step()

    def settle(self, steps: int = 20) -> None:
        """Step until nothing changes any more, without letting time pass."""
        for _ in range(steps):
            before = (self.store.read_active(), self.engine.observe())
            self.scheduler.step()
            if before == (self.store.read_active(), self.engine.observe()):
                return
        raise AssertionError(f"the service did not settle in {steps} steps")

    def messages(self, job_id: str = "job") -> list[str]:
        entries, _ = self.logs.list_page(
            projects=[PROJECT], filter_text=f'resource.labels.job_id="{job_id}"', page_size=1000
        )
        return [entry.message for entry in entries]
