"""The limits on waiting and running time of a job. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from training_api.causes import Cause
from training_api.job.dialect import Dialect
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord


def limit_reached(job: JobRecord, now: datetime, dialect: Dialect) -> Reason | None:
    """
    Return why the job has to be cancelled; ``None``: it has reached no limit.

    Source: discovery of ml.v1, Scheduling.maxWaitTime (QUEUED and PREPARING, from creation) and
    maxRunningTime (from RUNNING); the texts are [unverified].

    :param dialect: the job's.
    """
    max_wait, max_running = job.spec.max_wait, job.spec.max_running
    if job.state in (JobState.QUEUED, JobState.PREPARING):
        if max_wait is not None and now - job.created_at >= max_wait:
            return _over_limit(Cause.WAITED_TOO_LONG, "waited", dialect.word("max_wait", 2), max_wait)
    elif job.state is JobState.RUNNING and job.running_at and now - job.running_at >= max_running:
        return _over_limit(Cause.RAN_TOO_LONG, "ran", dialect.word("max_running", 2), max_running)
    return None


def _over_limit(cause: Cause, did: str, name: str, limit: timedelta) -> Reason:
    message = f"The job was cancelled because it {did} longer than {name} ({limit.total_seconds():.15g}s)."
    return Reason(cause=cause, message=message)
