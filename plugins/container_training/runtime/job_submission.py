"""Reads, decides and acts until one job stands for a task, whatever is lost on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tenacity import RetryCallState, Retrying

from container_training.hooks.metrics import Submission, count_retry, count_submission
from container_training.hooks.training import TrainingHook
from container_training.work.submission.job_attempt import for_attempt
from training_api.clients.backend import Capabilities
from training_api.clients.patience import patiently
from training_api.dialects.ml_v1.intent import Intent, Step, next_step
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobConflict, JobNotFound, Throttled, TrainingError
from training_api.job.job_id import TaskKey
from training_api.retrying import TRANSIENT

#: How long one attempt of the task asks a service that does not answer; after that, Airflow's retries take
#: over.
_PATIENCE_SECONDS = 60.0
#: How often a job may be asked for in vain: by conflicts without a job, and by answers that were lost.
_MAX_TRIES = 3
#: The pause between two looks for a job that a lost answer may have made.
_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """
    What a task wants to be submitted.

    :param request_hash: of ``job`` and ``options`` as asked for.
    :param options: what only Vertex AI has.
    """

    key: TaskKey
    job: Job
    request_hash: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSide:
    """
    What the submission asks its task.

    :param job_id: the id of an attempt.
    :param labels: of the job that an intent stands for.
    :param store: keeps an intent, and returns it.
    :param earlier_job: the earlier job that makes another attempt needless.
    :param before_submitting: called before each create.
    """

    job_id: Callable[[int], str]
    labels: Callable[[Intent], Mapping[str, str]]
    store: Callable[[Intent], Intent]
    earlier_job: Callable[[], Job | None]
    before_submitting: Callable[[], None]


class JobSubmission:
    """
    One submission: exactly one job of the intent, whatever dies or is lost.

    A service that refuses a second job of the same id makes that easy: a create whose answer was lost is
    sent again. Otherwise the intent is stored with the time of the create, and after a lost answer the job
    is looked for until lists are sure to show it; only then is it created again.
    """

    def __init__(
        self,
        hook: TrainingHook,
        log: Any,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._hook = hook
        self._log = log
        self._sleep = sleep
        self._now = now

    def retrying(self, errors: tuple[type[TrainingError], ...] = TRANSIENT) -> Retrying:
        """Return a caller that retries for a minute while the service does not answer."""
        return patiently(_PATIENCE_SECONDS, errors=errors, sleep=self._sleep, say=self._say_retry)

    def find(self, job_id: str) -> Job | None:
        """Return the job; ``None``: there is none."""
        try:
            return self._hook.get_job(job_id)
        except JobNotFound:
            return None

    def settle(self, wanted: Wanted, intent: Intent, task: TaskSide) -> Job:
        """
        Return the job that stands for the task.

        :raises JobConflict: another one has its id.
        """
        retrying = self.retrying()
        tries = 0
        while True:
            found = retrying(self._look, intent) or self._find_late(intent)
            step = next_step(wanted.key, intent, wanted.request_hash, found)
            if step is Step.ADOPT and found is not None:
                self._log.info("job %s is this task's own, with the same request: adopted", found.job_id)
                count_submission(Submission.ADOPTED)
                self._own(found, intent, task)
                return found
            if step is Step.NEXT_ATTEMPT:
                if (earlier := task.earlier_job()) is not None:
                    return earlier
                state = found and found.state
                self._log.info("job %s of this task is %s: submitting the next attempt", intent.job_id, state)
                job_id = task.job_id(intent.attempt + 1)
                region = self._next_region(wanted, found)
                intent = task.store(intent.next(job_id, wanted.request_hash, region))
                continue
            task.before_submitting()
            intent, job, lost = self._submit(wanted, intent, task)
            if job is not None:
                count_submission(Submission.SUBMITTED)
                self._own(job, intent, task)
                return job
            tries += 1
            if tries >= _MAX_TRIES:
                raise lost or JobConflict(
                    f"job id {intent.job_id!r} is taken, but no job with this id can be read; choose another "
                    "job_id"
                )

    @property
    def _can(self) -> Capabilities:
        return self._hook.client.capabilities

    def _stored_before_create(self, wanted: Wanted, intent: Intent, task: TaskSide) -> Intent:
        meant = replace(intent, request_hash=wanted.request_hash)
        if not self._can.has_unique_ids:
            meant = replace(meant, asked_at=self._now())
        return intent if meant == intent else task.store(meant)

    def _look(self, intent: Intent) -> Job | None:
        """Return the job of ``intent``, by the service's id or, if that is gone, by its own."""
        return (intent.known_as and self.find(intent.known_as)) or self.find(intent.job_id) or None

    def _submit(
        self, wanted: Wanted, intent: Intent, task: TaskSide
    ) -> tuple[Intent, Job | None, TrainingError | None]:
        """
        Return the submitted job, or why it is not known whether there is one.

        Neither: the job's id is taken; an earlier call whose answer was lost may have taken it.
        """
        # A refusal for now made no job. Another error may have, which is harmless only where ids are unique.
        errors = TRANSIENT if self._can.has_unique_ids else (Throttled,)

        def create() -> Job:
            nonlocal intent
            # Before each call, not only before the first: the service may have refused for a minute.
            intent = self._stored_before_create(wanted, intent, task)
            job = for_attempt(wanted.job, intent.job_id, task.labels(intent))
            return self._hook.submit_job(job, self._options(wanted, intent))

        try:
            created = self.retrying(errors)(create)
        except JobConflict:
            return intent, None, None
        except TRANSIENT as error:
            if self._can.has_unique_ids or isinstance(error, Throttled):
                raise
            seconds = self._can.list_lag_seconds
            self._log.warning("%s; the job may exist all the same: looking for it for %g s", error, seconds)
            # The job may have been made at any moment of the call.
            return self._stored_before_create(wanted, intent, task), None, error
        self._log.info("job %s was submitted: %s", created.job_id, created.to_wire())
        return intent, created, None

    def _next_region(self, wanted: Wanted, ended: Job | None) -> str:
        """Return where the attempt after ``ended`` is made; empty: the task names no regions."""
        if ended is None:
            return ""
        region = self._hook.client.next_region(wanted.options, ended)
        if region and ended.training_input and region != ended.training_input.region:
            self._log.info("the next attempt is made in %s: %s", region, ended.error_message)
        return region

    @staticmethod
    def _options(wanted: Wanted, intent: Intent) -> Mapping[str, Any]:
        """Return the options of one create, in the region of its attempt."""
        return {**wanted.options, "regions": [intent.region]} if intent.region else wanted.options

    def _find_late(self, intent: Intent) -> Job | None:
        """Look for a job that an earlier create may have made, until lists are sure to show it."""
        if intent.asked_at is None:
            return None
        # Another machine's clock may have said when it was asked, and a clock may be set back.
        left = min(intent.asked_at + self._can.list_lag_seconds - self._now(), self._can.list_lag_seconds)
        while left > 0:
            pause = min(left, _LOOK_SECONDS)
            self._sleep(pause)
            left -= pause
            if found := self.retrying()(self.find, intent.job_id):
                return found
        return None

    def _own(self, job: Job, intent: Intent, task: TaskSide) -> None:
        """Remember which job it is, and cancel those that lost answers have made beside it."""
        if self._can.has_unique_ids:
            return
        if intent.known_as != job.job_id:
            task.store(replace(intent, known_as=job.job_id or ""))
        if intent.asked_at is None:
            return
        try:
            for other in self.retrying()(self._hook.client.duplicates, job):
                self._log.warning("job %s is a second job of this task: it is cancelled", other.job_id)
                self._hook.cancel_job(other.job_id or "")
        except TrainingError as error:
            # The task has its job, and whoever waits for it looks for others as well.
            self._log.warning("jobs beside job %s may be left: %s", job.job_id, error)

    def _say_retry(self, state: RetryCallState) -> None:
        if state.outcome is not None and state.next_action is not None:
            error = state.outcome.exception()
            self._log.warning("%s; asking again in %.1f s", error, state.next_action.sleep)
            count_retry(error)
