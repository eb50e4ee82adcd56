"""
The service's own metrics, in Prometheus' form.

The values of labels are bounded: states, machine types, roles, causes. Names that users choose, such as a
DAG's, are labels only up to ``MAX_NAMES`` different ones; a job's id is an exemplar, never a label.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from training_api.causes import Cause
from training_api.job.labels import DAG_LABEL
from training_api.job.newer_machines import ALL_MACHINE_TYPES
from training_api.job.restarts import Attempts
from training_api.states import JobState
from training_service.intake.log_limiter import Loss
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
#: Time in a state: up to the week that a job may run.
_STATE_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
#: This many names of DAGs are labels; all others are ``other``.
MAX_NAMES = 200
OTHER = "other"
#: OpenMetrics: names and values of an exemplar's labels have at most 128 characters in all.
_EXEMPLAR_LENGTH = 128 - len("job_id")


class Metrics:
    """Counters and histograms; each service has its own registry, so that tests share nothing."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._dags = BoundedNames(MAX_NAMES)
        self.transitions = Counter(
            "training_job_transitions",
            "Jobs, and trials of tuning jobs, that entered a state.",
            ["kind", "state"],
            registry=self.registry,
        )
        self.state_seconds = Histogram(
            "training_job_state_seconds",
            "Time that jobs and trials spent in a state before they left it.",
            ["kind", "state", "machine_type"],
            buckets=_STATE_SECONDS,
            registry=self.registry,
        )
        self.failures = Counter(
            "training_job_failures",
            "Jobs and trials that FAILED or were CANCELLED, by cause (training_api/causes.py).",
            ["kind", "cause"],
            registry=self.registry,
        )
        for kind in ("job", "trial"):
            # Starts at 0, so that an alert sees the first one.
            self.failures.labels(kind, Cause.UNREADABLE.value)
        self.machine_seconds = Counter(
            "training_machine_seconds",
            "Running time of jobs that ended, times their machines: what prices are multiplied by.",
            ["machine_type", "dag"],
            registry=self.registry,
        )
        self.replica_restarts = Counter(
            "training_replica_restarts",
            "Replicas that were started again.",
            ["role"],
            registry=self.registry,
        )
        self.job_retries = Counter(
            "training_job_retries", "Jobs that were tried again as a whole.", registry=self.registry
        )
        self.step_seconds = Histogram(
            "training_loop_step_seconds",
            "One look of the loop: observe, reconcile, act.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.engine_errors = Counter(
            "training_engine_errors",
            "Requests that the engine refused or did not answer.",
            registry=self.registry,
        )
        self.loop_errors = Counter(
            "training_loop_errors", "Looks of the loop that ended in a bug.", registry=self.registry
        )
        self.dropped_log_lines = Counter(
            "training_log_dropped_lines", "Lines of floods that were not kept.", registry=self.registry
        )
        self.dropped_log_bytes = Counter(
            "training_log_dropped_bytes", "Bytes of floods that were not kept.", registry=self.registry
        )
        self.upkeep_removed = Counter(
            "training_upkeep_removed",
            "What was removed as it had been kept long enough, by kind.",
            ["kind"],
            registry=self.registry,
        )
        self.upkeep_errors = Counter(
            "training_upkeep_errors",
            "Removals of what had been kept long enough that failed; they are repeated.",
            ["task"],
            registry=self.registry,
        )
        self.missing_log_ends = Counter(
            "training_log_missing_ends",
            "Replicas whose log may lack its end, as the engine did not give it.",
            registry=self.registry,
        )
        self.requests = Histogram(
            "training_request_seconds",
            "API requests by route and status.",
            ["method", "route", "status"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.grpc_requests = Histogram(
            "training_grpc_request_seconds",
            "Calls over gRPC by method and code; those that became requests of REST are counted there, too.",
            ["method", "code"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def count_transition(
        self, job: JobRecord, to: JobState, at: datetime, reason: Reason | None = None
    ) -> None:
        """Count that ``job``, as it was, entered ``to``, and why, if it failed or was cancelled."""
        kind = "trial" if job.trial else "job"
        machine_types = [known_machine_type(replica.machine.name) for replica in job.spec.replicas]
        # A job that cannot be read has no replicas.
        machine_type = machine_types[0] if machine_types else OTHER
        self.transitions.labels(kind, to.value).inc()
        seconds = max((at - job.entered_at).total_seconds(), 0.0)
        if to in (JobState.FAILED, JobState.CANCELLED):
            self.failures.labels(kind, (reason.cause if reason else Cause.UNKNOWN).value).inc()
        exemplar = {"job_id": job.spec.job_id[-_EXEMPLAR_LENGTH:]}
        self.state_seconds.labels(kind, job.state.value, machine_type).observe(seconds, exemplar)
        if to.is_terminal and job.running_at and not job.spec.study:
            ran = max((at - job.running_at).total_seconds(), 0.0)
            dag = self._dags.name(job.spec.labels.get(DAG_LABEL, ""))
            for each in machine_types:
                self.machine_seconds.labels(each, dag).inc(ran)

    def count_attempts(self, before: Attempts, after: Attempts) -> None:
        """Count what ``after`` starts again that ``before`` did not."""
        if after.retries > before.retries:
            self.job_retries.inc(after.retries - before.retries)
            return
        for name, count in after.restarts.items():
            role = name.partition("-")[0]
            self.replica_restarts.labels(role).inc(count - before.restarts.get(name, 0))

    def count_loss(self, loss: Loss) -> None:
        """Count the lines of ``loss``, or that the end of a log is missing."""
        if loss.is_end:
            self.missing_log_ends.inc()
        self.dropped_log_lines.inc(loss.lines)
        self.dropped_log_bytes.inc(loss.size)

    def count_removed(self, kind: str, count: int) -> None:
        """Count what upkeep has removed."""
        self.upkeep_removed.labels(kind).inc(count)

    def watch_jobs(self, count_by_state: Callable[[], Mapping[JobState, int]]) -> None:
        """Report the number of jobs by state, counted at each scrape."""
        self.registry.register(_JobsByState(count_by_state))


class BoundedNames:
    """Lets the first ``limit`` different names through; safe for threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def name(self, name: str) -> str:
        """Return ``name``, or ``other`` if there are too many."""
        with self._lock:
            if name not in self._names and len(self._names) >= self._limit:
                return OTHER
            self._names.add(name)
            return name


def known_machine_type(name: str) -> str:
    """Return ``name`` if it is a machine type that any dialect has, else ``other``. Pure."""
    return name if name in ALL_MACHINE_TYPES else OTHER


class _JobsByState(Collector):
    def __init__(self, count_by_state: Callable[[], Mapping[JobState, int]]) -> None:
        self._count_by_state = count_by_state

    def describe(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("training_jobs", "Jobs by state.", labels=["state"])

    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily("training_jobs", "Jobs by state.", labels=["state"])
        counts = self._count_by_state()
        for state in JobState:
            gauge.add_metric([state.value], counts.get(state, 0))
        yield gauge
