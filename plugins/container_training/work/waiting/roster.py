"""
One poll for many waits: which jobs to ask for, what an answer means, and when. Pure.

A page of ``jobs.list`` has at most 100 jobs, so thousands of waiting jobs cannot be listed at each poll. Up
to ``ALL_BY_ID`` jobs are asked for by their ids. Beyond that, one poll asks for what has changed since the
last one, by the times that a job has (``startTime``, ``endTime``) and the states that have none. It also asks
for some jobs by id: first those never polled, then those that run or were not polled for long. So a change
that the times do not show, because the service wrote it late, is still found, only later. The API's jobs have
no ``updateTime`` to ask for.

Where lists know neither ids nor these times, a poll lists all living jobs, page by page, and asks for up to
``ALL_BY_ID`` of those that are waited for and not listed: they ended, or are too new for the list.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from training_api.dialects.ml_v1.resources import Job
from training_api.filtering import quoted
from training_api.job.labels import OWNER_LABEL
from training_api.states import LIVING, JobState
from training_api.wire import format_timestamp

#: discovery: ListJobs page_size, "the maximum page size is 100".
PAGE_SIZE = 100
#: Ids in one poll; the rest of its page is for changes.
ALL_BY_ID = 80
_SOME_BY_ID = 40
#: The URL of a poll stays below the 8 KiB that proxies commonly accept.
_MAX_ID_CHARACTERS = 5_000
#: How much later than its stated time a change may be written: a job's end waits for its last log line.
_WRITTEN_LATE = timedelta(seconds=2)
#: A job's news may be late by this share of its time in the current state ...
_SHARE_OF_AGE = 0.01
#: ... but by no more than these seconds, unless the waits or the connection ask for less.
SLOWEST_SECONDS = 10.0
#: Log pages per second of all waits together; while there are few waits, each may ask for one a second.
_LOG_PAGES_PER_SECOND = 50
_FASTEST_LOG_SECONDS = 1.0
_HURRIED = frozenset({JobState.PREPARING, JobState.CANCELLING})
_ACTIVE = _HURRIED | {JobState.RUNNING}
#: For a service whose lists cannot be asked for ids: all living jobs that tasks submitted.
_LIVING = f"labels.{OWNER_LABEL}:* AND ({' OR '.join(f'state={state}' for state in sorted(LIVING))})"
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """
    One poll: the filter of ``jobs.list``, and the jobs that it is about.

    :param job_ids: jobs that the answer must contain, if they exist.
    :param asked_at: seconds of the caller's clock.
    """

    filter: str
    job_ids: tuple[str, ...]
    asked_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """
    What an answer tells.

    :param changed: jobs that differ from when they were last seen, or are seen for the first time.
    :param missing: ids that were asked for and do not exist.
    """

    changed: tuple[Job, ...]
    missing: tuple[str, ...]


@dataclass(slots=True)
class _Watched:
    changed_at: float
    seen_at: float = _NEVER
    state: JobState | None = None
    output: Any = None
    intervals: list[float] = field(default_factory=list)

    def pace_seconds(self, now: float) -> float:
        """Return the longest pause that this job allows."""
        fastest = min(self.intervals)
        if self.state is None or self.state in _HURRIED:
            return fastest
        return max(fastest, min((now - self.changed_at) * _SHARE_OF_AGE, SLOWEST_SECONDS))


class Roster:
    """
    The jobs that are waited for. Times are seconds of one clock that only goes forward.

    :param least_seconds: shortest pause between two polls, whatever the waits ask for.
    :param lists_by_id: the service's lists can be asked for ids and times. Otherwise a poll lists all living
        jobs, and those that are waited for and not among them are asked for one by one.
    """

    def __init__(self, least_seconds: float = 0.0, *, lists_by_id: bool = True) -> None:
        self._least_seconds = least_seconds
        self._lists_by_id = lists_by_id
        self._watched: dict[str, _Watched] = {}
        #: The service's clock showed at least the first when ours showed the second.
        self._service_time: tuple[datetime, float] | None = None
        self._looked_at: float | None = None

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def has_newcomers(self) -> bool:
        """Whether there are jobs that no poll has been about yet."""
        return any(watched.seen_at == _NEVER for watched in self._watched.values())

    def join(self, job_id: str, interval_seconds: float, now: float) -> None:
        """Add a wait for ``job_id``; the next poll includes it, even if others wait for it already."""
        watched = self._watched.setdefault(job_id, _Watched(changed_at=now))
        watched.intervals.append(interval_seconds)
        watched.seen_at, watched.state = _NEVER, None

    def leave(self, job_id: str, interval_seconds: float) -> None:
        """Take back one ``join``."""
        watched = self._watched[job_id]
        watched.intervals.remove(interval_seconds)
        if not watched.intervals:
            del self._watched[job_id]

    def question(self, now: float) -> Question:
        """Return the next poll; there must be a wait."""
        if not self._lists_by_id:
            ids = tuple(sorted(self._watched, key=self._seen_at))  # the longest unseen are asked for first
            return Question(filter=_LIVING, job_ids=ids, asked_at=now)
        if len(self._watched) <= ALL_BY_ID:
            ids = _within_limits(sorted(self._watched), ALL_BY_ID)
            if len(ids) == len(self._watched):
                return Question(filter=_any_of(_by_id(ids)), job_ids=ids, asked_at=now)
        ids = self.due()
        return Question(filter=_any_of([*_by_id(ids), *self._changes()]), job_ids=ids, asked_at=now)

    def due(self) -> tuple[str, ...]:
        """Return the ids of the jobs to poll next, few enough for one poll."""
        newcomers = [job_id for job_id, watched in self._watched.items() if watched.seen_at == _NEVER]
        if newcomers:
            return _within_limits(newcomers, ALL_BY_ID)
        active = [job_id for job_id, watched in self._watched.items() if watched.state in _ACTIVE]
        chosen: dict[str, None] = dict.fromkeys(heapq.nsmallest(_SOME_BY_ID // 2, active, key=self._seen_at))
        for job_id in heapq.nsmallest(_SOME_BY_ID, self._watched, key=self._seen_at):
            chosen[job_id] = None
        return _within_limits(list(chosen), _SOME_BY_ID)

    def take(self, question: Question, jobs: Sequence[Job], now: float) -> News:
        """Record the whole answer to ``question``, including jobs without a wait."""
        changed = [job for job in jobs if self.see(job, now)]
        found = {job.job_id for job in jobs}
        self._looked_at = question.asked_at
        missing = (job_id for job_id in question.job_ids if job_id not in found and job_id in self._watched)
        return News(changed=tuple(changed), missing=tuple(islice(missing, ALL_BY_ID)))

    def see(self, job: Job, now: float) -> bool:
        """Record one job; return whether it is waited for and has changed."""
        self._hear_of_time(job, now)
        watched = self._watched.get(job.job_id or "")
        if watched is None:
            return False
        state = job.state or JobState.QUEUED
        is_new = watched.seen_at == _NEVER
        has_moved = watched.state is not None and watched.state is not state
        has_changed = is_new or has_moved or watched.output != job.training_output
        if is_new or has_moved:
            watched.changed_at = now
        watched.seen_at, watched.state, watched.output = now, state, job.training_output
        return has_changed

    def pause_seconds(self, now: float) -> float:
        """Return how long to wait until the next poll; there must be a wait."""
        wanted = min(watched.pace_seconds(now) for watched in self._watched.values())
        return max(wanted, self._least_seconds)

    def _seen_at(self, job_id: str) -> float:
        return self._watched[job_id].seen_at

    def _hear_of_time(self, job: Job, now: float) -> None:
        for moment in (job.create_time, job.start_time, job.end_time):
            least = self._service_clock(now)
            if moment is not None and (least is None or moment > least):
                self._service_time = (moment, now)

    def _service_clock(self, at: float) -> datetime | None:
        """Return the least time on the service's clock at our time ``at``; ``None``: unknown."""
        if self._service_time is None:
            return None
        moment, heard_at = self._service_time
        return moment + timedelta(seconds=at - heard_at)

    def _changes(self) -> list[str]:
        """Return the clauses for what may have changed since the last poll."""
        clauses = [f"state={state}" for state in sorted(_HURRIED)]
        least = None if self._looked_at is None else self._service_clock(self._looked_at)
        if least is not None:
            since = format_timestamp(least - _WRITTEN_LATE)
            clauses += [f'startTime>="{since}"', f'endTime>="{since}"']
        return clauses


def log_pause_seconds(readers: int) -> float:
    """Return the pause between two log pages of a wait, if ``readers`` waits show logs. Pure."""
    return max(_FASTEST_LOG_SECONDS, readers / _LOG_PAGES_PER_SECOND)


def _within_limits(ids: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the first of ``ids``, at least one, that fit into one poll."""
    characters = 0
    chosen: list[str] = []
    for job_id in ids[:count]:
        characters += len(_clause(job_id))
        if chosen and characters > _MAX_ID_CHARACTERS:
            break
        chosen.append(job_id)
    return tuple(chosen)


def _by_id(ids: Sequence[str]) -> list[str]:
    return [_clause(job_id) for job_id in ids]


def _clause(job_id: str) -> str:
    return f"jobId={quoted(job_id)}"


def _any_of(clauses: Sequence[str]) -> str:
    return " OR ".join(clauses)
