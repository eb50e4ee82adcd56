"""
What has to happen next: a pure function from the desired and the observed state to actions.

Nothing here reads a clock, a store or an engine. The loop (``scheduler.py``) performs the actions; every action may be
repeated, and every state is written before something is done because of it, so that the loop can be killed anywhere
and the next one goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from container_training.core.capacity import Capacity
from container_training.core.cluster import ReplicaId
from container_training.core.image_ref import ImageRef
from container_training.core.job_spec import JobSpec
from container_training.core.replica_spec import ReplicaSpec
from container_training.core.restarts import Attempts
from container_training.core.states import JobState, ReplicaState
from training_service.admission import admitted
from training_service.engine.base import EngineView, ObservedReplica
from training_service.records import JobRecord
from training_service.verdict import Over, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Write ``to`` as the job's state, as of ``at``."""

    job: JobRecord
    to: JobState
    at: datetime
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclude:
    """Write how the job will end; what still runs of it is stopped before it does."""

    job: JobRecord
    outcome: JobState
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAttempts:
    """Write what is to be started once more, and why; or, without a reason, that it has been."""

    job: JobRecord
    attempts: Attempts
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullImages:
    """Make images present on the engine and record their ids."""

    job: JobRecord
    images: tuple[ImageRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReplicas:
    """Start replicas of the job, side by side."""

    job: JobRecord
    replicas: tuple[ReplicaSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicas:
    """Stop replicas, side by side: SIGTERM, grace, SIGKILL."""

    job: JobRecord
    observed: tuple[ObservedReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveJob:
    """Remove what an ended (or unknown) job left on the engine."""

    job_uid: str


#: Only written: done at once, by the loop itself.
Decision = Transition | Conclude | RecordAttempts
#: Done by the engine, which takes its time.
Work = PullImages | StartReplicas | StopReplicas | RemoveJob
Action = Decision | Work


def reconcile(
    *,
    jobs: Sequence[JobRecord],
    view: EngineView,
    drained: Collection[str],
    busy: Collection[str],
    now: datetime,
    capacity: Capacity,
) -> list[Action]:
    """
    Return the actions that bring the engine and the records closer to what was asked.

    Pure.

    :param jobs: all jobs that have not ended.
    :param view: what the engine reports.
    :param drained: container ids whose log is stored to its last line.
    :param busy: uids of jobs for which an action is under way; they are left alone.
    :param capacity: what may be promised to the jobs that prepare, run or are cancelled side by side.
    """
    observed: dict[str, list[ObservedReplica]] = defaultdict(list)
    for replica in view.replicas:
        observed[replica.job_uid].append(replica)
    actions: list[Action] = []
    for job in jobs:
        if job.uid not in busy:
            actions += _next_steps(job, observed[job.uid], drained, now)
    active = [job for job in jobs if job.state is not JobState.QUEUED]
    queued = [job for job in jobs if job.state is JobState.QUEUED and not _limit_reached(job, now)]
    actions += [
        Transition(job=job, to=JobState.PREPARING, at=now) for job in admitted(active, queued, capacity)
    ]
    alive = {job.uid for job in jobs}
    actions += [RemoveJob(job_uid=uid) for uid in sorted(view.job_uids - alive - set(busy))]
    return actions


def _next_steps(
    job: JobRecord, observed: Sequence[ObservedReplica], drained: Collection[str], now: datetime
) -> list[Action]:
    if job.state is JobState.CANCELLING:
        return _wind_down(job, observed, drained, now, JobState.CANCELLED)
    if job.outcome:
        return _wind_down(job, observed, drained, now, job.outcome)
    current = {each.replica: each for each in observed if each.attempt == job.attempts.of(each.replica)}
    expired = _limit_reached(job, now)
    master = current.get(job.spec.master.replica)
    # A master that ended in time has ended in time, however late somebody looks.
    if expired and not (master and master.state is ReplicaState.EXITED):
        return [Transition(job=job, to=JobState.CANCELLING, at=now, error_message=expired)]
    match job.state:
        case JobState.PREPARING:
            return _prepare(job, current)
        case JobState.RUNNING:
            return _run(job, observed, current, drained)
    return []


def _prepare(job: JobRecord, current: dict[ReplicaId, ObservedReplica]) -> list[Action]:
    if images := missing_images(job.spec, job.images):
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
) -> list[Action]:
    verdict = judge(job, current, drained)
    if isinstance(verdict, Over):
        return [Conclude(job=job, outcome=verdict.outcome, error_message=verdict.error_message)]
    if verdict is not None:
        return [RecordAttempts(job=job, attempts=verdict.attempts, why=verdict.why)]
    # Before a retry of the whole job starts, all of the try before it has ended: they share host names.
    outdated = [each for each in _running(observed) if each not in current.values()]
    if outdated:
        return [StopReplicas(job=job, observed=tuple(outdated))]
    pending = tuple(
        spec for spec in _not_started(job, current) if spec.replica.task_name in job.attempts.pending
    )
    if not pending:
        return _note_started(job, current)
    # An image may have left the engine since.
    if images := missing_images(job.spec, job.images):
        return [PullImages(job=job, images=images)]
    return [StartReplicas(job=job, replicas=pending)]


def _note_started(job: JobRecord, current: dict[ReplicaId, ObservedReplica]) -> list[Action]:
    """A killed service may have started a replica without writing that it did; the container says so."""
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
    # What ended by itself ended when its last container did, however late somebody looks.
    at = now if to is JobState.CANCELLED else max([*ends, job.entered_at]) if ends else now
    return [Transition(job=job, to=to, at=at, error_message=job.error_message)]


def _running(observed: Sequence[ObservedReplica]) -> list[ObservedReplica]:
    return [each for each in observed if each.state is ReplicaState.RUNNING]


def _not_started(job: JobRecord, current: dict[ReplicaId, ObservedReplica]) -> tuple[ReplicaSpec, ...]:
    return tuple(
        spec
        for spec in job.spec.replicas
        if spec.replica not in current or current[spec.replica].state is ReplicaState.CREATED
    )


def missing_images(spec: JobSpec, known: Collection[str]) -> tuple[ImageRef, ...]:
    """Return the images of ``spec`` that are not among the ``known`` references, each once. Pure."""
    wanted = dict.fromkeys(replica.image for replica in spec.replicas)
    return tuple(image for image in wanted if image.pullable not in known)


def _limit_reached(job: JobRecord, now: datetime) -> str:
    """
    Return why the job has to be cancelled, or nothing.

    Source: discovery, Scheduling.maxWaitTime (QUEUED and PREPARING, from creation) and maxRunningTime (from RUNNING);
    the texts are [unverified].
    """
    max_wait, max_running = job.spec.max_wait, job.spec.max_running
    if job.state in (JobState.QUEUED, JobState.PREPARING):
        if max_wait is not None and now - job.created_at >= max_wait:
            return _limit_text("waited", "scheduling.maxWaitTime", max_wait)
    elif job.state is JobState.RUNNING and job.running_at and now - job.running_at >= max_running:
        return _limit_text("ran", "scheduling.maxRunningTime", max_running)
    return ""


def _limit_text(did: str, name: str, limit: timedelta) -> str:
    return f"The job was cancelled because it {did} longer than {name} ({limit.total_seconds():.15g}s)."
