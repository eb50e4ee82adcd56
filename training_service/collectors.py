"""Everything that is read of a container, as the loop sees it: one collector."""

from __future__ import annotations

from training_service.engine.base import ObservedReplica
from training_service.records import JobRecord
from training_service.scheduler import Collector


class Collectors:
    """Shows containers to all of ``collectors``; one is drained when all of them say so."""

    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    @property
    def drained(self) -> frozenset[str]:
        """Containers of which all is stored to the last."""
        return frozenset.intersection(*(collector.drained for collector in self._collectors))

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the container is followed."""
        for collector in self._collectors:
            collector.follow(record, observed)

    def forget(self, present: set[str]) -> None:
        """Drop what is known of containers that are gone."""
        for collector in self._collectors:
            collector.forget(present)
