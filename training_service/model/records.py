"""The service's own record of a job, or of one trial of a tuning job: the desired state, as the store keeps it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from training_api.dialects.ml_v1.resources import Job, TrainingOutput
from training_api.job.image_ref import ImageRef
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import Attempts
from training_api.states import JobState
from training_service.model.reasons import Reason

#: The states of which ``errorMessage`` says why.
_EXPLAINED = frozenset({JobState.FAILED, JobState.CANCELLING, JobState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """
    What makes a record a trial: its study, and the assignment that it evaluates.

    :param study_uid: the tuning job's uid.
    :param study_sequence: the tuning job's place in the queue, which its trials keep.
    :param number: 1 and up; the API's ``trialId``.
    :param hyperparameters: by name, as they are written on the wire and on the command line.
    :param stopped: why it was stopped early; empty: it was not.
    :param spared: why it would have been stopped, had it not been chosen to run on for comparison; empty: nothing would.
    """

    study_uid: str
    study_sequence: int
    number: int
    hyperparameters: Mapping[str, str]
    stopped: str = ""
    spared: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """What the API shows of a trial, without its measurements."""

    uid: str
    study_uid: str
    number: int
    hyperparameters: Mapping[str, str]
    state: JobState
    running_at: datetime | None
    ended_at: datetime | None
    stopped: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableJob:
    """
    A job, or a trial, that is to go on, and whose row cannot be read.

    :param record: what is known of it; it has no replicas.
    :param why: what could not be read.
    """

    record: JobRecord
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJobs:
    """The jobs and trials that the loop has to look at, oldest first, and those of them that it cannot read."""

    jobs: Sequence[JobRecord]
    unreadable: Sequence[UnreadableJob] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """
    One job with its state; a trial of a tuning job is one, too, with containers and a network of its own.

    :param uid: key of the job on the engine; random, so that a job id used in two projects never meets itself.
    :param sequence: grows with every job; orders the queue and the list.
    :param images: the engine's ids of the pulled images, by reference.
    :param reason: why it does not end well, once that is known; ``None``: it goes on, or went well.
    :param attempts: what was started again so far.
    :param outcome: how the job will end, once it is known; the job has that state when all its replicas have ended.
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

    @property
    def trial_id(self) -> str:
        """The trial's number as the wire has it; empty for a job."""
        return str(self.trial.number) if self.trial else ""

    @property
    def entered_at(self) -> datetime:
        """When the job entered its newest timed state."""
        return self.ended_at or self.running_at or self.preparing_at or self.created_at

    @property
    def is_ending(self) -> bool:
        """Whether the job has ended, or how it ends is decided, so that a cancel comes too late."""
        return self.outcome is not None or self.state is JobState.CANCELLING or self.state.is_terminal

    @property
    def missing_images(self) -> tuple[ImageRef, ...]:
        """The images of its replicas that have not been pulled, each once."""
        wanted = dict.fromkeys(replica.image for replica in self.spec.replicas)
        return tuple(image for image in wanted if image.pullable not in self.images)

    def to_wire(self, *, position: int | None = None, output: TrainingOutput | None = None) -> Job:
        """Return the API's resource; ``position`` is the 1-based place in the queue, ``output`` a tuning job's trials."""
        return Job(
            job_id=self.spec.job_id,
            labels=self.spec.labels or None,
            training_input=self.spec.training_input,
            training_output=output,
            state=self.state,
            create_time=self.created_at,
            start_time=self.running_at,
            end_time=self.ended_at,
            # While replicas are still being stopped, the outcome is decided and not yet told.
            error_message=self.reason.message or None if self.reason and self.state in _EXPLAINED else None,
            job_position=position,
            etag=etag(self.version),
        )


def etag(version: int) -> str:
    """Return the API's etag (bytes, so base64) of a record's version."""
    return base64.b64encode(version.to_bytes(8, "big")).decode()
