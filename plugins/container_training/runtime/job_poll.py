"""One job, polled by a task on a worker; what is new of it goes to the task's log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from container_training.hooks.training import TrainingHook
from container_training.work.waiting.job_watch import JobWatch
from training_api.clients.log_cursor import LogQuestion, log_line
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import ServiceError
from training_api.retrying import TRANSIENT


class JobPoll:
    """
    Polls a job, cancels it at its limit of cost, and shows its log.

    :param hook: must be open while this polls.
    :param log: the task's.
    :param now: the clock.
    :param shows_log: show the job's log, too; false once the service has refused to show it.
    """

    def __init__(
        self, hook: TrainingHook, job_id: str, log: Any, now: Callable[[], datetime], *, shows_log: bool
    ) -> None:
        self._hook = hook
        self._job_id = job_id
        self._log = log
        self._now = now
        self.shows_log = shows_log

    def look(self, watch: JobWatch, deadline_at: datetime, seen: Callable[[Job], None]) -> Job | None:
        """
        Return the job, or ``None`` if the service does not answer now.

        :param seen: gets the job before its log is read, which may fail.
        """
        try:
            job = self._hook.get_job(self._job_id)
            seen(job)
            for line in watch.see(job, self._now()):
                self._log.info("%s", line)
            self._show_log(watch)
            if watch.has_to_cancel(job):
                self._hook.cancel_job(self._job_id)
                self._log.warning("%s", watch.cancelled_line())
        except TRANSIENT as error:
            for line in watch.miss(error, self._now(), deadline_at):
                self._log.warning("%s", line)
            return None
        return job

    def _show_log(self, watch: JobWatch) -> None:
        question: LogQuestion | None = watch.log.begin(watch.place.job_id) if self.shows_log else None
        while question is not None:
            try:
                page = self._hook.client.list_log_entries(question.filter, page_token=question.page_token)
            except TRANSIENT:
                raise
            except ServiceError as error:
                self._log.warning("the log of job %s cannot be shown: %s", self._job_id, error)
                self.shows_log = False
                return
            entries, following = watch.log.take(question, page)
            for level, line in map(log_line, entries):
                self._log.log(level, "%s", line)
            if following is None and question.page_token:
                # The triggerer goes on from the cursor alone, which moves by one page a pass.
                following = watch.log.begin(watch.place.job_id)
            question = following
