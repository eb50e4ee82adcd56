"""Waiting for a job, without the clock: the goal, what was seen so far, and what to log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

from container_training.work.job_pages import JobPlace
from container_training.work.waiting.progress import Progress, is_to_be_cancelled, limit_text, look_at
from training_api.clients.log_cursor import LogCursor
from training_api.dialects.ml_v1.cost import Meter
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import InvalidArgument, JobFailed, PollTimeout
from training_api.states import JobState
from training_api.wire import format_timestamp


class Until(StrEnum):
    """What a wait waits for."""

    LEFT_QUEUED = "left_queued"  #: the job was admitted
    LEFT_PREPARING = "left_preparing"  #: its containers run
    FINISHED = "finished"  #: it ended

    @classmethod
    def of(cls, value: Until | str) -> Until:
        """
        Return the goal that ``value`` names.

        :raises InvalidArgument: it names none.
        """
        try:
            return cls(value)
        except ValueError as error:
            raise InvalidArgument(
                f"until must be one of {', '.join(cls)}, got {value!r}; leave it out to wait for the job's end"
            ) from error

    def is_reached(self, state: JobState) -> bool:
        """Whether ``state`` ends the wait. A wait for a job being cancelled lasts to the job's end."""
        return state.is_terminal or state in _REACHED[self]


_REACHED = {
    Until.LEFT_QUEUED: frozenset({JobState.PREPARING, JobState.RUNNING}),
    Until.LEFT_PREPARING: frozenset({JobState.RUNNING}),
    Until.FINISHED: frozenset[JobState](),
}


class Outcome(StrEnum):
    """How a wait ended."""

    REACHED = "REACHED"
    TIMED_OUT = "TIMED_OUT"  #: its own limit came first; the job continues
    REFUSED = "REFUSED"  #: the service answered with an error that waiting does not resolve
    COST_LIMIT = "COST_LIMIT"  #: the job reached its cost limit and was cancelled


class WaitEvent(TypedDict):
    """The one event of a ``JobTrigger``: JSON values only."""

    outcome: str
    job_id: str
    state: str | None  #: last state seen, if any
    message: str  #: ``errorMessage`` of the job, or why the wait ended
    error: NotRequired[str]  #: class name of the error, where REFUSED
    job_dir: NotRequired[str]  #: of the job, if it was seen and has one
    region: NotRequired[str]  #: the same
    is_study: NotRequired[bool]  #: the job is a search
    study: NotRequired[dict[str, Any]]  #: ``StudyResult`` without its table, of a tuning job
    cost: NotRequired[dict[str, Any]]  #: ``Cost``, where a price is known


class WatchMemory(TypedDict):
    """``JobWatch`` as JSON."""

    state: str | None
    since: str | None
    log_cursor: str | None
    shown: NotRequired[str]  #: key of the progress that was shown last
    is_over_limit: NotRequired[bool]


@dataclass(slots=True)
class JobWatch:
    """
    What one wait has seen of its job. Methods return the lines to log, each line once.

    :param since: when the job entered ``state``, as far as it is known.
    :param silent_since: when the service stopped answering; ``None`` while it answers.
    :param meter: prices and limits; ``None``: ignore trials and cost.
    :param progress: of the last answer.
    :param shown: key of the progress that was logged last.
    :param is_over_limit: this wait cancelled the job, because of its cost.
    :param job_dir: folder of its results, once it was seen.
    :param place: of the job as it was seen; before that, by the id that the wait was given.
    """

    job_id: str
    state: JobState | None = None
    since: datetime | None = None
    silent_since: datetime | None = None
    failures: int = 0
    log: LogCursor = field(default_factory=LogCursor)
    meter: Meter | None = None
    progress: Progress | None = None
    shown: str = ""
    is_over_limit: bool = False
    job_dir: str = ""
    place: JobPlace = field(init=False)

    def __post_init__(self) -> None:
        """Know the job by its id."""
        self.place = JobPlace(job_id=self.job_id)

    def see(self, job: Job, now: datetime) -> Iterator[str]:
        """
        Record an answer; yield a line if state or progress changed, or the service is back.

        :raises InvalidPrice: the job's cost is limited, and its price is unknown.
        """
        if self.silent_since is not None:
            yield f"the training service answers again, after {_seconds(self.silent_since, now)}"
        self.silent_since, self.failures = None, 0
        self.job_dir = (job.training_input and job.training_input.job_dir) or ""
        self.place = JobPlace.of(job)
        yield from self._see_state(job, now)
        if self.meter is None:
            return
        self.progress = look_at(job, now, self.meter)
        if self.progress.key != self.shown:
            self.shown = self.progress.key
            yield self.progress.line

    def _see_state(self, job: Job, now: datetime) -> Iterator[str]:
        state = job.state or JobState.QUEUED
        if state is self.state:
            return
        if self.state is None:
            self.since = job.create_time if state is JobState.QUEUED and job.create_time else now
            yield f"job {self.job_id} is {state}"
        else:
            yield f"job {self.job_id} is {state}, after {_seconds(self.since or now, now)} {self.state}"
            self.since = now
        self.state = state

    def miss(self, error: Exception, now: datetime, deadline_at: datetime) -> Iterator[str]:
        """Record a poll without an answer; yield a line for the first one in a row."""
        self.failures += 1
        if self.silent_since is None:
            self.silent_since = now
            yield f"{error}; still waiting, until {format_timestamp(deadline_at)}"

    def has_to_cancel(self, job: Job) -> bool:
        """Whether ``job``, just seen, has reached its cost limit and must be cancelled."""
        if self.meter is None or self.progress is None:
            return False
        is_due = is_to_be_cancelled(job, self.progress, self.meter)
        self.is_over_limit = self.is_over_limit or is_due
        return is_due

    def cancelled_line(self) -> str:
        """Return the line to log when the job is cancelled because of its cost."""
        money = self.meter.text(self.progress.cost) if self.meter and self.progress else ""
        return f"job {self.job_id} is being cancelled: {money}"

    def reached(self, job: Job) -> WaitEvent:
        """Return the event of a wait that ends with ``job``, just seen."""
        event = self.event(Outcome.REACHED, job.state, job.error_message or "")
        if self.meter is None or self.progress is None:
            return event
        if self.progress.study:
            event["study"] = self.progress.study.model_dump(mode="json")
        if self.progress.cost:
            event["cost"] = self.progress.cost.model_dump(mode="json")
        # Another process may have cancelled it before this one took over the wait: then the cost shows it.
        is_over = self.is_over_limit or self.meter.is_spent(self.progress.cost)
        if job.state is JobState.CANCELLED and is_over:
            event["outcome"] = Outcome.COST_LIMIT
            event["message"] = limit_text(self.job_id, self.progress, self.meter)
        return event

    def event(self, outcome: Outcome, state: str | None, message: str) -> WaitEvent:
        """Return an event with what was seen of the job."""
        event: WaitEvent = {
            "outcome": outcome,
            "job_id": self.place.job_id,
            "state": state,
            "message": message,
        }
        if self.job_dir:
            event["job_dir"] = self.job_dir
        if self.place.region:
            event["region"] = self.place.region
        if self.place.is_study:
            event["is_study"] = True
        return event

    def to_json(self) -> WatchMemory:
        """Return what a later process needs to resume without logging anything twice."""
        return {
            "state": self.state,
            "since": format_timestamp(self.since) if self.since else None,
            "log_cursor": self.log.to_json(),
            "shown": self.shown,
            "is_over_limit": self.is_over_limit,
        }

    @classmethod
    def from_json(cls, job_id: str, memory: WatchMemory | None, meter: Meter | None = None) -> JobWatch:
        """Return the watch that ``to_json`` wrote, or a new one."""
        if not memory:
            return cls(job_id, meter=meter)
        return cls(
            job_id,
            meter=meter,
            shown=memory.get("shown", ""),
            is_over_limit=memory.get("is_over_limit", False),
            state=JobState(memory["state"]) if memory["state"] else None,
            since=datetime.fromisoformat(memory["since"]) if memory["since"] else None,
            log=LogCursor.from_json(memory["log_cursor"]),
        )


def raise_unless_well(job_id: str, state: str | None, error_message: str) -> None:
    """Raise :class:`JobFailed` if a job ended in ``state`` other than SUCCEEDED."""
    if state in (JobState.FAILED, JobState.CANCELLED):
        raise JobFailed(job_id, str(state), error_message)


def place_of(event: WaitEvent) -> JobPlace:
    """Return the place of the job of ``event``, as far as it was seen."""
    return JobPlace(
        job_id=event["job_id"], region=event.get("region", ""), is_study=event.get("is_study", False)
    )


def poll_timeout(
    job_id: str, until: Until, state: str | None, limit_seconds: float, cancel_command: str
) -> PollTimeout:
    """Return the error of a wait that timed out: limit, state, and how to cancel the job."""
    return PollTimeout(
        f"job {job_id!r} was not {until.replace('_', ' ')!r} within timeout={limit_seconds:g} s; "
        f"its last known state is {state or 'unknown: the training service did not answer'}. The job goes on; to cancel it: "
        f"{cancel_command}"
    )


def _seconds(start: datetime, end: datetime) -> str:
    return f"{max((end - start).total_seconds(), 0.0):.1f} s"
