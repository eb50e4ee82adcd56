"""Which queued jobs may start: by priority, then age, as far as the machine has room. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from container_training.core.capacity import Capacity, Load, grants, has_room, load_of
from training_service.records import JobRecord


def admitted(active: Iterable[JobRecord], queued: Iterable[JobRecord], capacity: Capacity) -> list[JobRecord]:
    """
    Return the jobs of ``queued`` that may start now, in their order.

    Pure. Nobody overtakes: a job for which there is no room yet holds the smaller ones behind it, so that it starts
    as soon as enough others have ended, however many small ones come.

    :param active: jobs that hold room: all that have neither ended nor wait.
    """
    used = sum((_load(job, capacity) for job in active), Load())
    chosen = []
    for job in sorted(queued, key=queue_order):
        load = _load(job, capacity)
        if not has_room(used, load, capacity):
            break
        used += load
        chosen.append(job)
    return chosen


def queue_order(job: JobRecord) -> tuple[int, int]:
    """Return the sort key of the queue: higher priority first, then the older."""
    return -job.spec.priority, job.sequence


def _load(job: JobRecord, capacity: Capacity) -> Load:
    return load_of(grants(job.spec.replicas, capacity))
