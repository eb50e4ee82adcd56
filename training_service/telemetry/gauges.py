"""The state of the service as a whole, measured when somebody scrapes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from training_api.fleet.wire import FleetResponse, Room
from training_service.model.clock import Clock, utc_now

#: What is measured, and what it means.
GAUGES: Mapping[str, str] = {
    "training_capacity": "What may be promised to jobs, by resource; replicas 0: any number.",
    "training_promised": "What is promised to jobs that prepare, run or end, by resource.",
    "training_oldest_queued_seconds": "How long the oldest job has waited in the queue; 0: none waits.",
    "training_last_success_timestamp_seconds": "When a job last SUCCEEDED, by the DAG and the label model that it had then.",
    "training_disk_free_bytes": "Free space of the disk that a part of the service writes to.",
    "training_disk_size_bytes": "Size of that disk.",
}


class ServiceGauges(Collector):
    """
    Gauges over the store, the engine and the disks.

    :param successes: (DAG, model, end) of the last job of each that succeeded.
    :param fleet: room and queue of all projects.
    :param volumes: what is written where, by name; what does not exist is left out.
    """

    def __init__(
        self,
        successes: Callable[[], Iterable[tuple[str, str, datetime]]],
        fleet: Callable[[], FleetResponse],
        volumes: Mapping[str, Path],
        clock: Clock = utc_now,
    ) -> None:
        self._successes = successes
        self._fleet = fleet
        self._volumes = volumes
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Name the gauges without measuring them."""
        return [GaugeMetricFamily(name, text) for name, text in GAUGES.items()]

    def collect(self) -> Iterator[Metric]:
        """Measure."""
        fleet = self._fleet()
        # While the engine does not answer, nobody knows the room: no gauge is better than a wrong one.
        for name, room in (("training_capacity", fleet.capacity), ("training_promised", fleet.used)):
            if room is not None:
                yield _room(name, room)
        oldest = fleet.oldest_queued_time
        waited = (self._clock() - oldest).total_seconds() if oldest else 0.0
        name = "training_oldest_queued_seconds"
        yield GaugeMetricFamily(name, GAUGES[name], value=max(waited, 0.0))
        name = "training_last_success_timestamp_seconds"
        successes = GaugeMetricFamily(name, GAUGES[name], labels=["dag", "model"])
        for dag, model, ended_at in self._successes():
            successes.add_metric([dag, model], ended_at.timestamp())
        yield successes
        yield from self._disks()

    def _disks(self) -> Iterator[Metric]:
        free, size = (
            GaugeMetricFamily(name, GAUGES[name], labels=["volume"])
            for name in ("training_disk_free_bytes", "training_disk_size_bytes")
        )
        for volume, path in self._volumes.items():
            try:
                usage = shutil.disk_usage(path)
            except FileNotFoundError:
                continue
            free.add_metric([volume], usage.free)
            size.add_metric([volume], usage.total)
        yield free
        yield size


def _room(name: str, room: Room) -> Metric:
    gauge = GaugeMetricFamily(name, GAUGES[name], labels=["resource"])
    for resource in ("cpus", "memory_bytes", "gpus", "replicas"):
        gauge.add_metric([resource], getattr(room, resource))
    return gauge
