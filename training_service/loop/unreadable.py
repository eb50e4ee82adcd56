"""How a job ends whose row cannot be read, so that nobody knows what it should run. Pure."""

from __future__ import annotations

from datetime import datetime

from training_api.causes import Cause
from training_api.states import LEGAL, JobState
from training_service.model.reasons import Reason
from training_service.model.records import UnreadableJob
from training_service.model.work import Transition


def end_of(job: UnreadableJob, now: datetime) -> Transition:
    """
    Return the end of an unreadable job: the one that was decided before, or else FAILED.

    Once it is written, what the job has on the engine belongs to no job, and the loop removes it.
    """
    record = job.record
    if record.state is JobState.CANCELLING:
        return Transition(job=record, to=JobState.CANCELLED, at=now, reason=record.reason)
    if record.outcome in LEGAL[record.state]:
        return Transition(job=record, to=record.outcome, at=now, reason=record.reason)
    message = f"The job cannot be read as the service has stored it, and did not go on: {job.why}"
    return Transition(
        job=record, to=JobState.FAILED, at=now, reason=Reason(cause=Cause.UNREADABLE, message=message)
    )
