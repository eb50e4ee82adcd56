"""The use case of deleting a job that has ended."""

from __future__ import annotations

from collections.abc import Callable

from training_api.errors import ServiceError
from training_service.model.records import JobRecord
from training_service.store.ended.ended_jobs import EndedJob


class JobStillActive(ServiceError):
    """A job that has not ended cannot be deleted."""

    code, status = 400, "FAILED_PRECONDITION"


class JobRemoval:
    """
    Removes jobs on request.

    :param remove: removes an ended job with all that belongs to it.
    :param has_active_trial: tells of a job, by its uid, whether a trial of it has not ended.
    """

    def __init__(self, remove: Callable[[EndedJob], None], has_active_trial: Callable[[str], bool]) -> None:
        self._remove = remove
        self._has_active_trial = has_active_trial

    def remove(self, record: JobRecord) -> None:
        """
        Remove a job, its log, and what was measured of it.

        What the real service does with a job that runs is not known [unverified].

        :raises JobStillActive: it has not ended, or a trial of it has not.
        """
        if not record.state.is_terminal:
            raise JobStillActive(
                f"job {record.spec.job_id} is {record.state.value}; cancel it, and delete it once it has ended"
            )
        # A tuning job that cannot be read ends before its trials; their containers would be nobody's.
        if self._has_active_trial(record.uid):
            raise JobStillActive(
                f"trials of job {record.spec.job_id} have not ended; delete it once they have"
            )
        self._remove(EndedJob(uid=record.uid, project=record.spec.project, job_id=record.spec.job_id))
