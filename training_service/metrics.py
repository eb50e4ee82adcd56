"""The service's own metrics, in Prometheus' form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from container_training.core.states import JobState
from training_service.logs.limiter import Loss

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)


class Metrics:
    """Counters and histograms; one registry a service, so that tests do not share theirs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.transitions = Counter(
            "training_job_transitions", "Jobs that entered a state.", ["state"], registry=self.registry
        )
        self.state_seconds = Histogram(
            "training_job_state_seconds",
            "Time that jobs spent in a state before they left it.",
            ["state"],
            buckets=_SECONDS,
            registry=self.registry,
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
        self.requests = Histogram(
            "training_request_seconds",
            "API requests by route and status.",
            ["method", "route", "status"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def count_loss(self, loss: Loss) -> None:
        """Count the lines of ``loss``."""
        self.dropped_log_lines.inc(loss.lines)
        self.dropped_log_bytes.inc(loss.size)

    def watch_jobs(self, count_by_state: Callable[[], Mapping[JobState, int]]) -> None:
        """Report the number of jobs by state, counted when somebody asks."""
        self.registry.register(_JobsByState(count_by_state))


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
