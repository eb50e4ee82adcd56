"""Whether the service is well, measured when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from training_service.model.heartbeat import Heartbeat

#: What is measured, and what it means.
HEALTH_GAUGES: Mapping[str, str] = {
    "training_ready": "1: this part of the service is well; 0: it is not, and /health/ready says why.",
    "training_loop_last_success_timestamp_seconds": "When the loop last ended an iteration well.",
}


class HealthGauges(Collector):
    """
    Gauges over the health of the service.

    :param is_ok: by name, whether each part is well; within a deadline.
    """

    def __init__(self, is_ok: Callable[[], Mapping[str, bool]], heartbeat: Heartbeat) -> None:
        self._is_ok = is_ok
        self._heartbeat = heartbeat

    def describe(self) -> Iterable[Metric]:
        """Name the gauges without measuring them."""
        return [GaugeMetricFamily(name, text) for name, text in HEALTH_GAUGES.items()]

    def collect(self) -> Iterator[Metric]:
        """Measure."""
        name = "training_ready"
        ready = GaugeMetricFamily(name, HEALTH_GAUGES[name], labels=["part"])
        for part, ok in self._is_ok().items():
            ready.add_metric([part], float(ok))
        yield ready
        name = "training_loop_last_success_timestamp_seconds"
        yield GaugeMetricFamily(name, HEALTH_GAUGES[name], value=self._heartbeat.at.timestamp())
