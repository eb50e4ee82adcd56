"""The service's own record of a job: the desired state, as the store keeps it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime

from container_training.core.job_spec import JobSpec
from container_training.core.states import JobState
from container_training.core.wire import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """
    One job with its state.

    :param uid: key of the job on the engine; random, so that a job id used in two projects never meets itself.
    :param sequence: grows with every job; orders the queue and the list.
    :param image_id: the engine's id of the pulled image; empty until it is pulled.
    :param version: grows with every write; the API's ``etag``.
    """

    uid: str
    sequence: int
    spec: JobSpec
    state: JobState
    created_at: datetime
    preparing_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    error_message: str = ""
    image_id: str = ""
    version: int = 1

    @property
    def entered_at(self) -> datetime:
        """When the job entered its newest timed state."""
        return self.ended_at or self.running_at or self.preparing_at or self.created_at

    def to_wire(self, *, position: int | None = None) -> Job:
        """Return the API's resource; ``position`` is the 1-based place in the queue."""
        return Job(
            job_id=self.spec.job_id,
            labels=self.spec.labels or None,
            training_input=self.spec.training_input,
            state=self.state,
            create_time=self.created_at,
            start_time=self.running_at,
            end_time=self.ended_at,
            error_message=self.error_message or None,
            job_position=position,
            etag=etag(self.version),
        )


def etag(version: int) -> str:
    """Return the API's etag (bytes, so base64) of a record's version."""
    return base64.b64encode(version.to_bytes(8, "big")).decode()
