"""Records what takes a job's time."""

from __future__ import annotations

from datetime import datetime

from container_engines.base import ObservedReplica
from training_api.fleet.wire import SpanKind
from training_api.states import ReplicaState
from training_service.model.clock import Clock, utc_now
from training_service.model.records import JobRecord
from training_service.store.span_store import NewSpan, SpanStore


class Timeline:
    """
    Records runs of replicas as the loop sees them, and pulls of images; safe for threads.

    A run is recorded with the engine's times, so it does not matter how late the loop sees it.
    """

    def __init__(self, store: SpanStore, clock: Clock = utc_now) -> None:
        self._store = store
        self._clock = clock
        #: What was recorded last of each container.
        self._recorded: dict[str, ReplicaState] = {}
        self._seen: dict[str, tuple[ReplicaState, NewSpan]] = {}

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Note that the container has started, or ended; :meth:`forget` records it."""
        if observed.started_at is None or self._recorded.get(observed.container_id) is observed.state:
            return
        span = NewSpan(
            job_uid=record.uid,
            kind=SpanKind.RUN,
            name=observed.replica.task_name,
            attempt=str(observed.attempt),
            started_at=observed.started_at,
            ended_at=observed.finished_at,
            exit_code=observed.exit_code,
            out_of_memory=observed.out_of_memory,
        )
        self._seen[observed.container_id] = observed.state, span

    def forget(self, present: set[str]) -> None:
        """Record what is new; drop what is known of containers that are no longer ``present``."""
        if self._seen:
            self._store.put(*(span for _, span in self._seen.values()))
            self._recorded |= {container: state for container, (state, _) in self._seen.items()}
            self._seen = {}
        self._recorded = {name: state for name, state in self._recorded.items() if name in present}

    def pulled(self, record: JobRecord, image: str, pinned: str, started_at: datetime) -> None:
        """Record that ``image`` is present, as ``pinned``, after a pull since ``started_at``."""
        span = NewSpan(
            job_uid=record.uid,
            kind=SpanKind.PULL,
            name=image,
            pinned=pinned,
            started_at=started_at,
            ended_at=self._clock(),
        )
        self._store.put(span)
