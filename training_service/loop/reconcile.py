"""
What has to happen next: a pure function from desired and observed state to actions.

Nothing here reads a clock, a store or an engine. The loop (``scheduler.py``) performs the actions. Every
action may be repeated, and every state is written before anything is done because of it. So the loop can be
killed anywhere, and the next one resumes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from container_engines.base import EngineView, ObservedReplica
from training_api.job.capacity import Capacity, Granted
from training_api.job.cluster import ReplicaId
from training_api.job.dialect import Dialect, Dialects
from training_api.job.placement import Placement
from training_api.job.replica_spec import ReplicaSpec
from training_api.states import JobState, ReplicaState
from training_service.loop.admission import admitted, queue_order
from training_service.loop.places import Places
from training_service.loop.unreadable import end_of
from training_service.model.limits import limit_reached
from training_service.model.records import JobRecord, UnreadableJob
from training_service.model.verdict import Over, judge
from training_service.model.work import (
    Action,
    Conclude,
    PullImages,
    RecordAttempts,
    RemoveJob,
    StartReplicas,
    StopReplicas,
    Transition,
)
from training_service.studies.study import StudyView, free_slots
from training_service.studies.study_steps import study_steps, trial_steps


def reconcile(
    *,
    jobs: Sequence[JobRecord],
    view: EngineView,
    drained: Collection[str],
    busy: Collection[str],
    now: datetime,
    capacity: Capacity,
    dialects: Dialects,
    studies: Mapping[str, StudyView] | None = None,
    unreadable: Sequence[UnreadableJob] = (),
    strangers: Collection[str] = (),
    placement: Placement = Placement.SPREAD,
) -> list[Action]:
    """
    Return the actions that bring the engine and the records closer to what was asked.

    Pure.

    :param jobs: all jobs that have not ended, and can be read.
    :param view: what the engine reports.
    :param drained: container ids whose log is stored to its last line.
    :param busy: uids of jobs with an action in progress; of these, only a cancel is decided.
    :param capacity: what may be promised to jobs that prepare, run or are being cancelled side by side.
    :param dialects: those of ``jobs``, at least.
    :param studies: by uid, what is known of the tuning jobs among ``jobs``.
    :param unreadable: the jobs that have not ended and cannot be read.
    :param strangers: uids of unknown jobs whose containers are kept for now.
    :param placement: how replicas are put on several machines, unless their job says otherwise.
    """
    studies = studies or {}
    trials: dict[str, list[JobRecord]] = defaultdict(list)
    for job in jobs:
        if job.trial:
            trials[job.trial.study_uid].append(job)
    observed: dict[str, list[ObservedReplica]] = defaultdict(list)
    for replica in view.replicas:
        observed[replica.job_uid].append(replica)
    actions: list[Action] = [end_of(job, now) for job in unreadable]
    for job in jobs:
        dialect = dialects[job.spec.dialect]
        if job.spec.study:
            steps = study_steps(job, studies[job.uid], trials[job.uid], now, dialect)
        else:
            steps = _next_steps(job, observed[job.uid], drained, now, dialect)
            if job.trial:
                steps = trial_steps(job, studies.get(job.trial.study_uid), steps, now, dialect)
        actions += filter(_is_cancel, steps) if job.uid in busy else steps
    active = [job for job in jobs if job.state is not JobState.QUEUED]
    queued = [
        job
        for job in jobs
        if job.state is JobState.QUEUED and not limit_reached(job, now, dialects[job.spec.dialect])
    ]
    queued += [job for job in jobs for _ in range(_trials_to_plan(job, studies, trials))]
    granted = Granted(capacity)
    needs_places = bool(queued) or any(isinstance(each, StartReplicas) for each in actions)
    if capacity.machines and needs_places:
        places = Places(sorted(active, key=queue_order), observed, capacity, granted, placement)
        actions = [places.of(each) if isinstance(each, StartReplicas) else each for each in actions]
    else:
        places = None
    actions += [
        Transition(job=job, to=JobState.PREPARING, at=now)
        for job in admitted(active, queued, capacity, granted, places)
    ]
    # An unreadable job's containers are removed when its end is written.
    alive = {job.uid for job in jobs} | {job.record.uid for job in unreadable}
    actions += [RemoveJob(job_uid=uid) for uid in sorted(view.job_uids - alive - set(busy) - set(strangers))]
    return actions


def _is_cancel(step: Action) -> bool:
    return isinstance(step, Transition) and step.to is JobState.CANCELLING


def _trials_to_plan(
    job: JobRecord, studies: Mapping[str, StudyView], trials: Mapping[str, Sequence[JobRecord]]
) -> int:
    """Return for how many trials beyond itself a tuning job waits in the queue."""
    if job.spec.study is None or job.is_ending:
        return 0
    free = free_slots(studies[job.uid], len(trials[job.uid]))
    return max(free - 1, 0) if job.state is JobState.QUEUED else free


def _next_steps(
    job: JobRecord,
    observed: Sequence[ObservedReplica],
    drained: Collection[str],
    now: datetime,
    dialect: Dialect,
) -> list[Action]:
    if job.state is JobState.CANCELLING:
        return _wind_down(job, observed, drained, now, JobState.CANCELLED)
    if job.outcome:
        return _wind_down(job, observed, drained, now, job.outcome)
    current = {each.replica: each for each in observed if each.attempt == job.attempts.of(each.replica)}
    expired = limit_reached(job, now, dialect)
    master = current.get(job.spec.master.replica)
    # A master that ended in time counts, however late the loop sees it.
    if expired and not (master and master.state is ReplicaState.EXITED):
        return [Transition(job=job, to=JobState.CANCELLING, at=now, reason=expired)]
    match job.state:
        case JobState.PREPARING:
            return _prepare(job, current)
        case JobState.RUNNING:
            return _run(job, observed, current, drained, dialect)
    return []


def _prepare(job: JobRecord, current: dict[ReplicaId, ObservedReplica]) -> list[Action]:
    if images := job.missing_images:
        return [PullImages(job=job, images=images)]
    if missing := _not_started(job, current):
        return [StartReplicas(job=job, replicas=missing)]
    started = max((each.started_at or job.entered_at for each in current.values()), default=job.entered_at)
    return [Transition(job=job, to=JobState.RUNNING, at=max(started, job.entered_at))]


def _run(
    job: JobRecord,
    observed: Sequence[ObservedReplica],
    current: dict[ReplicaId, ObservedReplica],
    drained: Collection[str],
    dialect: Dialect,
) -> list[Action]:
    verdict = judge(job, current, drained, dialect)
    if isinstance(verdict, Over):
        return [Conclude(job=job, outcome=verdict.outcome, reason=verdict.reason)]
    if verdict is not None:
        return [RecordAttempts(job=job, attempts=verdict.attempts, why=verdict.why)]
    # Before a retry of the whole job starts, its last try must have ended: they share host names.
    outdated = [each for each in _running(observed) if each not in current.values()]
    if outdated:
        return [StopReplicas(job=job, observed=tuple(outdated))]
    if not job.attempts.pending:
        return []
    pending = tuple(
        spec for spec in _not_started(job, current) if spec.replica.task_name in job.attempts.pending
    )
    if not pending:
        return _note_started(job, current)
    # An image may have been removed from the engine since.
    if images := job.missing_images:
        return [PullImages(job=job, images=images)]
    return [StartReplicas(job=job, replicas=pending)]


def _note_started(job: JobRecord, current: dict[ReplicaId, ObservedReplica]) -> list[Action]:
    """Write the start that a killed service did not write: the container's state shows it."""
    started = [replica for replica in current if replica.task_name in job.attempts.pending]
    if not started:
        return []
    return [RecordAttempts(job=job, attempts=job.attempts.started(started))]


def _wind_down(
    job: JobRecord,
    observed: Sequence[ObservedReplica],
    drained: Collection[str],
    now: datetime,
    to: JobState,
) -> list[Action]:
    """Stop what still runs, wait for the last lines, and write the end."""
    running = _running(observed)
    if running:
        return [StopReplicas(job=job, observed=tuple(running))]
    if any(each.state is ReplicaState.EXITED and each.container_id not in drained for each in observed):
        return []
    ends = [each.finished_at for each in observed if each.finished_at]
    # A job that ended by itself ended with its last container, however late the loop sees it.
    at = now if to is JobState.CANCELLED else max([*ends, job.entered_at]) if ends else now
    return [Transition(job=job, to=to, at=at, reason=job.reason)]


def _running(observed: Sequence[ObservedReplica]) -> list[ObservedReplica]:
    return [each for each in observed if each.state is ReplicaState.RUNNING]


def _not_started(job: JobRecord, current: dict[ReplicaId, ObservedReplica]) -> tuple[ReplicaSpec, ...]:
    return tuple(
        spec
        for spec in job.spec.replicas
        if spec.replica not in current or current[spec.replica].state is ReplicaState.CREATED
    )
