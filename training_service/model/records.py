"""A stored job, or one trial of a tuning job: the desired state."""

from __future__ import annotations

import base64
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from training_api.job.image_ref import ImageRef
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import Attempts
from training_api.states import JobState
from training_service.model.reasons import Reason

#: The states that an error explains.
_EXPLAINED = frozenset({JobState.FAILED, JobState.CANCELLING, JobState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """
    What makes a record a trial: its study, and its hyperparameters.

    :param study_uid: the tuning job's uid.
    :param study_sequence: the tuning job's place in the queue, which its trials keep.
    :param number: 1 and up; the API's ``trialId``.
    :param hyperparameters: by name, as they are written on the wire and on the command line.
    :param stopped: why it was stopped early; empty: it was not.
    :param spared: why it would have been stopped had it not been chosen as a control; empty: no reason.
    """

    study_uid: str
    study_sequence: int
    number: int
    hyperparameters: Mapping[str, str]
    stopped: str = ""
    spared: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """A trial as the API shows it, without its measurements."""

    uid: str
    study_uid: str
    number: int
    hyperparameters: Mapping[str, str]
    state: JobState
    running_at: datetime | None
    ended_at: datetime | None
    stopped: str
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableJob:
    """
    An active job, or trial, whose row cannot be read.

    :param record: what is known of it; it has no replicas.
    :param why: what could not be read.
    """

    record: JobRecord
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJobs:
    """The active jobs and trials, oldest first, and those that cannot be read."""

    jobs: Sequence[JobRecord]
    unreadable: Sequence[UnreadableJob] = ()

    def of_dialects(self, known: Container[str]) -> ActiveJobs:
        """Return the jobs with those as unreadable whose dialect is not ``known``."""
        strange = [job for job in self.jobs if job.spec.dialect not in known]
        if not strange:
            return self
        why = "this version of the service does not speak the dialect {!r}"
        return ActiveJobs(
            jobs=[job for job in self.jobs if job.spec.dialect in known],
            unreadable=[
                *self.unreadable,
                *(UnreadableJob(record=job, why=why.format(job.spec.dialect)) for job in strange),
            ],
        )

    @property
    def uids(self) -> frozenset[str]:
        """Return the uids of all of them."""
        return frozenset(job.uid for job in (*self.jobs, *(each.record for each in self.unreadable)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """
    One job with its state; a trial of a tuning job is one, too, with its own containers.

    :param uid: key of the job on the engine; random, so that the same job id in two projects never collides.
    :param sequence: grows with every job; orders the queue and the list.
    :param request: what was asked, as it was sent, in the canonical JSON of the job's dialect; of a trial
        what its containers are told.
    :param images: the engine's ids of the pulled images, by reference.
    :param reason: why it does not succeed, once that is known; ``None``: it is active, or succeeded.
    :param attempts: the restarts so far.
    :param outcome: how the job will end, once that is known; the job gets that state when all its replicas
        have ended.
    :param version: grows with every write; the API's ``etag``.
    :param trial: set for a trial; the API shows it within its tuning job only.
    """

    uid: str
    sequence: int
    spec: JobSpec
    state: JobState
    created_at: datetime
    preparing_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    reason: Reason | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    attempts: Attempts = field(default_factory=Attempts)
    outcome: JobState | None = None
    version: int = 1
    trial: Trial | None = None
    request: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trial_id(self) -> str:
        """The trial's number as on the wire; empty for a job."""
        return str(self.trial.number) if self.trial else ""

    @property
    def entered_at(self) -> datetime:
        """When the job entered its newest timed state."""
        return self.ended_at or self.running_at or self.preparing_at or self.created_at

    @property
    def is_ending(self) -> bool:
        """Whether the job has ended, or its outcome is decided: then a cancel comes too late."""
        return self.outcome is not None or self.state is JobState.CANCELLING or self.state.is_terminal

    @property
    def missing_images(self) -> tuple[ImageRef, ...]:
        """The images of its replicas that have not been pulled, each once."""
        wanted = dict.fromkeys(replica.image for replica in self.spec.replicas)
        return tuple(image for image in wanted if image.pullable not in self.images)

    @property
    def error_message(self) -> str:
        """
        Why the job does not succeed, for people; empty: it does, or may.

        While replicas are being stopped, the outcome is decided but not shown yet.
        """
        return self.reason.message if self.reason and self.state in _EXPLAINED else ""


def etag(version: int) -> str:
    """Return the API's etag (bytes, so base64) of a record's version."""
    return base64.b64encode(version.to_bytes(8, "big")).decode()
