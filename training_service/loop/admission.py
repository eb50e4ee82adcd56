"""Which queued jobs may start: by priority, then age, as far as the machine has room. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from training_api.job.capacity import Capacity, Load, grants, has_room, load_of
from training_api.states import JobState
from training_service.model.records import JobRecord


def admitted(active: Iterable[JobRecord], queued: Iterable[JobRecord], capacity: Capacity) -> list[JobRecord]:
    """
    Return the jobs of ``queued`` that may start now, in their order.

    Pure. Nobody overtakes: a job for which there is no room yet holds the smaller ones behind it, so that it starts
    as soon as enough others have ended, however many small ones come.

    A tuning job starts as soon as there is room for one trial; from then on its trials are what takes room, and the job
    keeps the place in the queue of those that are still to be planned.

    :param active: jobs that hold room: all that have neither ended nor wait.
    :param queued: with a tuning job once for every trial that it may add now.
    """
    used = sum((_load(job, capacity) for job in active if not job.spec.study), Load())
    chosen = []
    for job in sorted(queued, key=queue_order):
        load = _load(job, capacity)
        if not has_room(used, load, capacity):
            break
        used += load
        if job.state is JobState.QUEUED and job not in chosen:
            chosen.append(job)
    return chosen


def queue_order(job: JobRecord) -> tuple[int, int, int]:
    """Return the sort key of the queue: higher priority first, then the older; a trial stands where its study does."""
    place = job.trial.study_sequence if job.trial else job.sequence
    return -job.spec.priority, place, job.sequence


def _load(job: JobRecord, capacity: Capacity) -> Load:
    return load_of(grants(job.spec.replicas, capacity))
