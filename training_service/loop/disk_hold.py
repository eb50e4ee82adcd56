"""While a disk is nearly full, no job leaves the queue. A job's log says so once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import sqlalchemy as sa
import structlog

from training_api.cloud_logging import Severity
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.model.work import Action, Transition

logger = structlog.get_logger(__name__)


class DiskHold:
    """
    Filters the loop's decisions before they are carried out; one thread.

    :param problem: why no job is admitted; empty: jobs are admitted.
    :param note: writes a line of the service to a job's log.
    """

    def __init__(self, problem: Callable[[], str], note: Callable[[JobRecord, str, Severity], None]) -> None:
        self._problem = problem
        self._note = note
        #: Jobs in the queue that were told.
        self._told: set[str] = set()
        self._held = ""

    def allowed(self, actions: Iterable[Action]) -> list[Action]:
        """Return the ``actions`` that are allowed: all but admissions while a disk is full."""
        decided = list(actions)
        admissions = [each.job for each in decided if isinstance(each, Transition) and _admits(each)]
        if not admissions:
            return decided
        problem = self._problem()
        if bool(problem) != bool(self._held):
            logger.warning("jobs wait for a disk" if problem else "disks have room again", reason=problem)
        self._held = problem
        if not problem:
            self._told -= {job.uid for job in admissions}
            return decided
        for job in admissions:
            self._tell(job, problem)
        return [each for each in decided if not (isinstance(each, Transition) and _admits(each))]

    def _tell(self, job: JobRecord, problem: str) -> None:
        if job.uid in self._told:
            return
        try:
            self._note(job, f"The job waits: the service admits no job now, as {problem}.", Severity.WARNING)
        except sa.exc.SQLAlchemyError as error:
            # The full disk may be that of the database; the hold itself needs no write.
            logger.warning("job not told of the disk", job_uid=job.uid, reason=type(error).__name__)
            return
        self._told.add(job.uid)


def _admits(transition: Transition) -> bool:
    return transition.to is JobState.PREPARING
