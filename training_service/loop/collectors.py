"""Everything that is read of a container, as the loop sees it: one collector."""

from __future__ import annotations

from collections.abc import Sequence

from container_engines.base import ObservedReplica
from training_service.loop.scheduler import Collector, Observer
from training_service.model.records import JobRecord


class Collectors:
    """
    Shows containers to all of ``collectors``, and to ``observers``.

    A container is drained when all collectors say so.
    """

    def __init__(self, *collectors: Collector, observers: Sequence[Observer] = ()) -> None:
        self._collectors = collectors
        self._observers = observers

    @property
    def drained(self) -> frozenset[str]:
        """Containers of which all is stored to the last."""
        return frozenset.intersection(*(collector.drained for collector in self._collectors))

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the container is followed."""
        for each in (*self._collectors, *self._observers):
            each.follow(record, observed)

    def forget(self, present: set[str]) -> None:
        """Drop what is known of containers that are gone."""
        for each in (*self._collectors, *self._observers):
            each.forget(present)
