"""Jobs that a create with a lost answer made beside the one that its task waits for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from training_api.dialects.ml_v1.resources import Job
from training_api.job.labels import OWNER_LABEL
from training_api.states import ACTIVE


def duplicates(listed: Sequence[Job], waited_for: Collection[str]) -> Iterator[tuple[Job, str]]:
    """
    Yield each second living job of a task, and the id of the one that is waited for.

    A task has one living job at a time. Nothing is said of tasks whose job is not in ``listed``: it may have
    ended, and the other one may be the task's next attempt.

    :param listed: all living jobs of the service.
    :param waited_for: ids of jobs.
    """
    known = {
        owner: job.job_id
        for job in listed
        if job.job_id in waited_for and (owner := (job.labels or {}).get(OWNER_LABEL)) and job.state in ACTIVE
    }
    for job in listed:
        first = known.get((job.labels or {}).get(OWNER_LABEL, ""))
        if first and job.job_id not in waited_for and job.state in ACTIVE:
            yield job, first
