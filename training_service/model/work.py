"""
The loop's actions: decisions, and work.

A decision is only written. Work takes the engine, or the search, some time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from container_engines.base import ObservedReplica
from training_api.job.cluster import ReplicaId
from training_api.job.image_ref import ImageRef
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.restarts import Attempts
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.search.early_stopping import EarlyStoppingReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Write ``to`` as the job's state since ``at``; ``reason``: why it does not succeed."""

    job: JobRecord
    to: JobState
    at: datetime
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclude:
    """
    Write how the job will end; what still runs of it is stopped before that.

    :param reason: why, unless it succeeds.
    :param summary: the report on early stopping, of a study.
    """

    job: JobRecord
    outcome: JobState
    reason: Reason | None = None
    summary: EarlyStoppingReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAttempts:
    """Write what is to be restarted, and why; or, without a reason, that it was."""

    job: JobRecord
    attempts: Attempts
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEarly:
    """Write that a running trial is stopped early, or would have been and is spared, and why."""

    job: JobRecord
    reason: str
    is_spared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTrial:
    """Ask the search for an assignment, and queue a trial of the tuning job with it."""

    job: JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PullImages:
    """Make images present on the engine and store their ids."""

    job: JobRecord
    images: tuple[ImageRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReplicas:
    """
    Start replicas of the job, side by side.

    :param machines: which of several machines each runs on; one without may run on any.
    """

    job: JobRecord
    replicas: tuple[ReplicaSpec, ...]
    machines: Mapping[ReplicaId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicas:
    """Stop replicas, side by side: SIGTERM, grace, SIGKILL."""

    job: JobRecord
    observed: tuple[ObservedReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveJob:
    """Remove what an ended (or unknown) job left on the engine."""

    job_uid: str


#: Only written: the loop does it at once.
Decision = Transition | Conclude | RecordAttempts | StopEarly
#: Takes time.
Work = AddTrial | PullImages | StartReplicas | StopReplicas | RemoveJob
Action = Decision | Work
