"""Which queued jobs may start: by priority, then age, as far as they fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from training_api.job.capacity import Capacity, Load, grants, has_room, load_of
from training_api.states import JobState
from training_service.model.records import JobRecord

#: What decides how much a job holds: of each replica the machine type, and how many accelerators.
_Shape = tuple[tuple[str, int], ...]


def admitted(active: Iterable[JobRecord], queued: Iterable[JobRecord], capacity: Capacity) -> list[JobRecord]:
    """
    Return the jobs of ``queued`` that may start now, in their order.

    Pure. No job overtakes another: one that does not fit yet holds back the smaller ones behind it. So it
    starts as soon as enough others have ended, however many small ones come.

    A tuning job starts as soon as one trial fits. From then on its trials use the capacity, and the job keeps
    the queue position for those still to be planned.

    :param active: jobs that use capacity: all that have started and not ended.
    :param queued: a tuning job is listed once for every trial that it may add now.
    """
    waiting = sorted(queued, key=queue_order)
    if not waiting:
        return []
    # Many of a thousand jobs are alike: what such jobs hold is computed once.
    alike: dict[_Shape, list[JobRecord]] = {}
    for job in active:
        if not job.spec.study:
            alike.setdefault(_shape(job), []).append(job)
    used = sum((_load(same[0], capacity) * len(same) for same in alike.values()), Load())
    chosen = []
    for job in waiting:
        load = _load(job, capacity)
        if not has_room(used, load, capacity):
            break
        used += load
        if job.state is JobState.QUEUED and job not in chosen:
            chosen.append(job)
    return chosen


def queue_order(job: JobRecord) -> tuple[int, int, int]:
    """Return the queue's sort key: priority, then age; a trial stands where its study does."""
    place = job.trial.study_sequence if job.trial else job.sequence
    return -job.spec.priority, place, job.sequence


def _shape(job: JobRecord) -> _Shape:
    return tuple((replica.machine.name, replica.gpus) for replica in job.spec.replicas)


def _load(job: JobRecord, capacity: Capacity) -> Load:
    return replace(load_of(grants(job.spec.replicas, capacity)), networks=1)
