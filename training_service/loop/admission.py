"""Which queued jobs may start: by priority, then age, as far as they fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from training_api.job.capacity import Capacity, Granted, Load, has_room, load_of
from training_api.states import JobState
from training_service.loop.places import Places
from training_service.model.records import JobRecord


def admitted(
    active: Iterable[JobRecord],
    queued: Iterable[JobRecord],
    capacity: Capacity,
    granted: Granted,
    places: Places | None = None,
) -> list[JobRecord]:
    """
    Return the jobs of ``queued`` that may start now, in their order.

    Pure. No job overtakes another: one that does not fit yet holds back the smaller ones behind it. So it
    starts as soon as enough others have ended, however many small ones come.

    A tuning job starts as soon as one trial fits. From then on its trials use the capacity, and the job keeps
    the queue position for those still to be planned.

    :param active: jobs that use capacity: all that have started and not ended.
    :param queued: a tuning job is listed once for every trial that it may add now.
    :param places: the machines of the active jobs; ``None``: there is one machine.
    """
    waiting = sorted(queued, key=queue_order)
    if not waiting:
        return []
    used = sum((_load(job, granted, capacity) for job in active if not job.spec.study), Load())
    chosen = []
    for job in waiting:
        load = _load(job, granted, capacity)
        if not has_room(used, load, capacity):
            break
        # Alone, a job starts in any case: what it gets was cut to the machines.
        if places and not places.admit(job) and used.replicas:
            break
        used += load
        if job.state is JobState.QUEUED and job not in chosen:
            chosen.append(job)
    return chosen


def queue_order(job: JobRecord) -> tuple[int, int, int]:
    """Return the queue's sort key: priority, then age; a trial stands where its study does."""
    place = job.trial.study_sequence if job.trial else job.sequence
    return -job.spec.priority, place, job.sequence


def _load(job: JobRecord, granted: Granted, capacity: Capacity) -> Load:
    shares = capacity.shares_network and len(job.spec.replicas) == 1
    return replace(load_of(granted.of(job.spec.replicas)), networks=0 if shares else 1)
