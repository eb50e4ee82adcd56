"""
What has to happen next: a pure function from the desired and the observed state to actions.

Nothing here reads a clock, a store or an engine. The loop (``scheduler.py``) performs the actions; every action may be
repeated, and every state is written before something is done because of it, so that the loop can be killed anywhere
and the next one goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from container_training.core.image_ref import ImageRef
from container_training.core.job_spec import ReplicaSpec
from container_training.core.states import JobState, ReplicaState
from training_service.engine.base import EngineView, ObservedReplica
from training_service.records import JobRecord

#: 128 + SIGKILL: how a shell, and the engine, report a process killed by signal 9.
_KILLED = 137
_SIGKILL = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Write ``to`` as the job's state, as of ``at``."""

    job: JobRecord
    to: JobState
    at: datetime
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullImage:
    """Make the image present on the engine and record its id."""

    job: JobRecord
    image: ImageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReplica:
    """Start one replica of the job."""

    job: JobRecord
    replica: ReplicaSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """Stop one replica: SIGTERM, grace, SIGKILL."""

    job: JobRecord
    observed: ObservedReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveJob:
    """Remove what an ended (or unknown) job left on the engine."""

    job_uid: str


Action = Transition | PullImage | StartReplica | StopReplica | RemoveJob


def reconcile(
    *,
    jobs: Sequence[JobRecord],
    view: EngineView,
    drained: Collection[str],
    busy: Collection[str],
    now: datetime,
    max_active_jobs: int,
) -> list[Action]:
    """
    Return the actions that bring the engine and the records closer to what was asked.

    Pure.

    :param jobs: all jobs that have not ended.
    :param view: what the engine reports.
    :param drained: container ids whose log is stored to its last line.
    :param busy: uids of jobs for which an action is under way; they are left alone.
    :param max_active_jobs: how many jobs may prepare, run or be cancelled side by side.
    """
    observed: dict[str, list[ObservedReplica]] = defaultdict(list)
    for replica in view.replicas:
        observed[replica.job_uid].append(replica)
    actions: list[Action] = []
    for job in jobs:
        if job.uid not in busy:
            actions += _next_steps(job, observed[job.uid], drained, now)
    actions += _admit(jobs, now, max_active_jobs)
    alive = {job.uid for job in jobs}
    actions += [RemoveJob(job_uid=uid) for uid in sorted(view.job_uids - alive - set(busy))]
    return actions


def _next_steps(
    job: JobRecord, observed: Sequence[ObservedReplica], drained: Collection[str], now: datetime
) -> list[Action]:
    expired = _limit_reached(job, now)
    # A master that ended in time has ended in time, however late somebody looks.
    if expired and not any(replica.state is ReplicaState.EXITED for replica in observed):
        return [Transition(job=job, to=JobState.CANCELLING, at=now, error_message=expired)]
    match job.state:
        case JobState.PREPARING:
            return _prepare(job, observed)
        case JobState.RUNNING:
            return _run(job, observed, drained, now)
        case JobState.CANCELLING:
            return _cancel(job, observed, drained, now)
    return []


def _admit(jobs: Iterable[JobRecord], now: datetime, max_active_jobs: int) -> list[Action]:
    """Let queued jobs in while there is room: higher priority first, then the older."""
    active = sum(job.state is not JobState.QUEUED for job in jobs)
    queued = sorted(
        (job for job in jobs if job.state is JobState.QUEUED and not _limit_reached(job, now)),
        key=lambda job: (-job.spec.priority, job.sequence),
    )
    return [
        Transition(job=job, to=JobState.PREPARING, at=now)
        for job in queued[: max(max_active_jobs - active, 0)]
    ]


def _prepare(job: JobRecord, observed: Sequence[ObservedReplica]) -> list[Action]:
    if not job.image_id:
        return [PullImage(job=job, image=job.spec.master.image)]
    by_replica = {replica.replica: replica for replica in observed}
    missing = [
        replica
        for replica in job.spec.replicas
        if replica.replica not in by_replica or by_replica[replica.replica].state is ReplicaState.CREATED
    ]
    if missing:
        return [StartReplica(job=job, replica=replica) for replica in missing]
    started = max((replica.started_at or job.entered_at for replica in observed), default=job.entered_at)
    return [Transition(job=job, to=JobState.RUNNING, at=max(started, job.entered_at))]


def _run(
    job: JobRecord, observed: Sequence[ObservedReplica], drained: Collection[str], now: datetime
) -> list[Action]:
    """The master decides; it has ended for the API only when its last line is stored."""
    master = next((r for r in observed if r.replica == job.spec.master.replica), None)
    if master is None:
        lost = f"The replica {job.spec.master.replica.role} 0 was lost: its container was removed from the engine."
        return [Transition(job=job, to=JobState.FAILED, at=now, error_message=lost)]
    if master.state is not ReplicaState.EXITED or master.container_id not in drained:
        return []
    ended = max(master.finished_at or now, job.entered_at)
    if master.exit_code == 0:
        return [Transition(job=job, to=JobState.SUCCEEDED, at=ended)]
    return [Transition(job=job, to=JobState.FAILED, at=ended, error_message=failure_message([master]))]


def _cancel(
    job: JobRecord, observed: Sequence[ObservedReplica], drained: Collection[str], now: datetime
) -> list[Action]:
    running = [replica for replica in observed if replica.state is ReplicaState.RUNNING]
    if running:
        return [StopReplica(job=job, observed=replica) for replica in running]
    if any(r.state is ReplicaState.EXITED and r.container_id not in drained for r in observed):
        return []
    return [Transition(job=job, to=JobState.CANCELLED, at=now, error_message=job.error_message)]


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


def failure_message(failed: Sequence[ObservedReplica]) -> str:
    """
    Return the ``errorMessage`` for replicas that exited with a non-zero status.

    Pure. Forms: [issues: rstudio/cloudml#130, tensorflow/models#4294]; out of memory [issue: tensorflow/models#5591].
    """
    return " ".join(_failure_of(replica) for replica in failed)


def _failure_of(observed: ObservedReplica) -> str:
    name = f"The replica {observed.replica.role} {observed.replica.index}"
    code = observed.exit_code
    if observed.out_of_memory:
        status = f"{_SIGKILL}(SIGKILL)" if code == _KILLED else str(code)
        return f"{name} ran out-of-memory and exited with a non-zero status of {status}."
    return f"{name} exited with a non-zero status of {code}."
