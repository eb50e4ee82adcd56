"""
Tables of jobs for people who watch the service: many at once, with totals.

What is stored was checked when it came in. It is passed on as it is, because reports ask for thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.filtering import parse_filter
from training_api.fleet.wire import DEFAULT_SEARCH_PAGE, MAX_SEARCH_PAGE, SearchJobsRequest
from training_api.job.dialect import Dialects, JobField
from training_api.states import LIVING, JobState
from training_api.wire import format_timestamp
from training_service.model.clock import Clock, utc_now
from training_service.model.paging import page_size
from training_service.store.database import REMOVED_JOBS, from_us, to_us
from training_service.store.jobs.job_list import newest_first, of_dags, one_page, wanted_jobs
from training_service.store.jobs.job_rows import state_of
from training_service.store.jobs.stored_spec import mapping_of
from training_service.store.sql.any_of import TERMINAL_VALUES
from training_service.store.tables import counters, is_job, is_queued, is_trial, jobs

#: What a search can be filtered by beside the fields of ``jobs.list``: its rows are of all dialects.
SEARCHED_TOO: Mapping[str, JobField] = {"displayName": JobField.DISPLAY_NAME}
_MAX_ERROR_CHARACTERS = 2000
_COLUMNS = (
    jobs.c.uid,
    jobs.c.sequence,
    jobs.c.job_id,
    jobs.c.state,
    jobs.c.labels,
    jobs.c.dialect,
    jobs.c.request,
    jobs.c.created_us,
    jobs.c.preparing_us,
    jobs.c.running_us,
    jobs.c.ended_us,
    jobs.c.error_message,
    jobs.c.reason,
)


class JobSearch:
    """
    Reads ``jobs``; safe for threads.

    :param positions: the places in the queue of some jobs, by uid.
    :param dialects: which sum up the requests of jobs.
    :param names: what filters call the fields of jobs.
    """

    def __init__(
        self,
        engine: sa.Engine,
        positions: Callable[[Sequence[str]], Mapping[str, int]],
        dialects: Dialects,
        names: Mapping[str, JobField],
        clock: Clock = utc_now,
    ) -> None:
        self._engine = engine
        self._positions = positions
        self._dialects = dialects
        self._names = names
        self._clock = clock

    def search(self, project: str, request: SearchJobsRequest) -> dict[str, Any]:
        """
        Return the JSON form of a :class:`SearchJobsResponse`.

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the page token, or the page size, is invalid.
        """
        size = page_size(request.page_size, default=DEFAULT_SEARCH_PAGE, maximum=MAX_SEARCH_PAGE)
        wanted = sa.and_(
            wanted_jobs(project, parse_filter(request.filter), self._names), of_dags(request.dags)
        )
        if request.changed_after:
            since = to_us(request.changed_after)
            wanted = sa.and_(wanted, sa.or_(jobs.c.ended_us.is_(None), jobs.c.ended_us > since))
        query = newest_first(sa.select(*_COLUMNS).where(wanted), size, request.page_token)
        counted = (
            sa.select(jobs.c.state, sa.func.count().label("number")).where(wanted).group_by(jobs.c.state)
        )
        with self._engine.connect() as connection:
            rows, token = one_page(list(connection.execute(query)), size)
            states: Counter[str] = Counter()
            for row in connection.execute(counted):
                states[state_of(row.state)] += row.number
            found = self._rows(connection, rows)
        return {
            "jobs": found,
            "nextPageToken": token,
            "total": states.total(),
            "states": states,
        }

    def row(self, uid: str) -> dict[str, Any] | None:
        """Return the JSON form of a :class:`JobRow`; ``None``: there is no such job."""
        query = sa.select(*_COLUMNS).where(is_job, jobs.c.uid == uid)
        with self._engine.connect() as connection:
            return next(iter(self._rows(connection, list(connection.execute(query)))), None)

    def oldest_queued(self, project: str = "") -> tuple[int, datetime | None]:
        """Return how many jobs of ``project`` (empty: of all) wait, and since when the oldest does."""
        of_project = [jobs.c.project == project] if project else []
        # Two queries: an index gives the minimum at once, but not together with anything else.
        number, oldest = (
            sa.select(what).where(*of_project, is_job, is_queued).scalar_subquery()
            for what in (sa.func.count(), sa.func.min(jobs.c.created_us))
        )
        with self._engine.connect() as connection:
            count, since = connection.execute(sa.select(number, oldest)).one()
        return count, None if since is None else from_us(since)

    def version(self, project: str) -> str:
        """Return a text that changes with every new state and removal; four index look-ups."""
        living = (
            sa.select(jobs.c.state, sa.func.count(), sa.func.sum(jobs.c.sequence))
            .where(jobs.c.state.in_(sorted(LIVING)))
            .group_by(jobs.c.state)
            .order_by(jobs.c.state)
        )
        newest = sa.select(sa.func.max(jobs.c.sequence))
        last_end = sa.select(sa.func.max(jobs.c.ended_us)).where(is_job, jobs.c.project == project)
        removed = sa.select(counters.c.value).where(counters.c.name == REMOVED_JOBS)
        with self._engine.connect() as connection:
            parts = [connection.scalar(each) for each in (newest, last_end, removed)]
            parts += [value for row in connection.execute(living) for value in row]
        return "-".join(str(part or 0) for part in parts)

    def _rows(self, connection: sa.Connection, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the JSON form of what was read of jobs."""
        shown = {row.uid: self._shown(row) for row in rows}
        studies = self._studies(connection, [uid for uid, asked in shown.items() if is_tuning(asked)])
        places = self._positions([row.uid for row in rows if row.state == JobState.QUEUED.value])
        now_us = to_us(self._clock())
        return [_row(row, shown[row.uid], studies.get(row.uid), places.get(row.uid), now_us) for row in rows]

    def _shown(self, row: Any) -> Mapping[str, Any]:
        """Return what a table shows of a row's request; nothing of an unknown dialect."""
        dialect = self._dialects.get(row.dialect)
        if dialect is None:
            return {}
        request = mapping_of(row.request)
        return {"displayName": dialect.display_name(request), "trainingInput": dialect.summary(request)}

    def _studies(self, connection: sa.Connection, uids: Sequence[str]) -> dict[str, Any]:
        """Return the sums over the trials of tuning jobs, by the job's uid."""
        now_us = to_us(self._clock())
        seconds = (sa.func.coalesce(jobs.c.ended_us, now_us) - jobs.c.running_us) / sa.literal(1e6)
        query = (
            sa.select(
                jobs.c.study_uid,
                sa.func.count().label("total"),
                sa.func.sum(sa.case((jobs.c.state.in_(TERMINAL_VALUES), 1), else_=0)).label("ended"),
                sa.func.coalesce(sa.func.sum(seconds), 0.0).label("seconds"),
            )
            .where(is_trial, jobs.c.study_uid.in_(uids))
            .group_by(jobs.c.study_uid)
        )
        return {row.study_uid: row for row in connection.execute(query)} if uids else {}


def _row(
    row: Any, shown: Mapping[str, Any], trials: Any, position: int | None, now_us: int
) -> dict[str, Any]:
    """Return the JSON form of a :class:`JobRow`."""
    fields = {
        "jobId": row.job_id,
        "dialect": row.dialect,
        "state": state_of(row.state),
        "labels": mapping_of(row.labels),
        "createTime": _time(row.created_us),
        "prepareTime": _time(row.preparing_us),
        "startTime": _time(row.running_us),
        "endTime": _time(row.ended_us),
        "errorMessage": row.error_message[:_MAX_ERROR_CHARACTERS] or None,
        "reason": mapping_of(row.reason) or None,
        "jobPosition": position,
        **shown,
    }
    told = {name: value for name, value in fields.items() if value is not None}
    if is_tuning(shown):
        counts = {"total": trials.total, "ended": trials.ended} if trials else {"total": 0, "ended": 0}
        return {**told, "trials": counts, "billedSeconds": trials.seconds if trials else 0.0}
    ran_us = (row.ended_us or now_us) - row.running_us if row.running_us else 0
    return {**told, "billedSeconds": max(ran_us, 0) / 1e6}


def is_tuning(row: Mapping[str, Any]) -> bool:
    """Whether a job tunes. :param row: what the table shows of it; of an unreadable job, too."""
    return "hyperparameters" in row.get("trainingInput", {})


def _time(microseconds: int | None) -> str | None:
    return None if microseconds is None else format_timestamp(from_us(microseconds))
