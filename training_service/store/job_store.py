"""
Jobs in the database: what was asked and how far it got.

Every write is one transaction. A state change is compare-and-swap on the state that the writer saw, and writes the
service's own log line with it, so that neither exists without the other.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from training_api.dialects.ml_v1.log_wire import Severity
from training_api.errors import JobConflict, JobNotFound
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import Attempts
from training_api.states import TERMINAL, JobState, advance
from training_service.model.clock import Clock, utc_now
from training_service.model.job_messages import queued_message
from training_service.model.reasons import Reason
from training_service.model.records import ActiveJobs, JobRecord, UnreadableJob
from training_service.model.resources import job_resource, owner_policy
from training_service.store.database import read_meta, to_us, writing
from training_service.store.job_list import newest_first, one_page, wanted_jobs
from training_service.store.job_rows import (
    bare_record,
    log_entry,
    new_values,
    reason_values,
    record_of,
    shown_record,
    state_entry,
    state_of,
)
from training_service.store.log_store import LogStore
from training_service.store.policy_store import insert_policy
from training_service.store.stored_spec import UNREADABLE
from training_service.store.tables import is_job, jobs

_TIME_COLUMN = {
    JobState.PREPARING: "preparing_us",
    JobState.RUNNING: "running_us",
    **dict.fromkeys(TERMINAL, "ended_us"),
}
#: How many queued jobs the loop looks at: more than can start between two looks.
_QUEUE_HEAD = 50


def _select_active() -> sa.Select[Any]:
    queued = jobs.c.state == JobState.QUEUED.value
    started = jobs.c.state.in_(sorted({*JobState} - TERMINAL - {JobState.QUEUED}))
    head = sa.select(jobs.c.sequence).where(is_job, queued).order_by(jobs.c.priority.desc(), jobs.c.sequence)
    # Trials are few: a study has no more of them at a time than it may run side by side.
    trials = sa.and_(queued, jobs.c.study_uid != "")
    impatient = sa.and_(
        is_job,
        queued,
        jobs.c.waits_until_us <= sa.bindparam("now"),
    )
    wanted = sa.or_(started, jobs.c.sequence.in_(head.limit(_QUEUE_HEAD)), trials, impatient)
    return sa.select(jobs).where(wanted).order_by(jobs.c.sequence)


def _select_positions() -> sa.Select[Any]:
    other = jobs.alias("other")
    ahead = sa.or_(
        other.c.priority > jobs.c.priority,
        sa.and_(other.c.priority == jobs.c.priority, other.c.sequence < jobs.c.sequence),
    )
    waiting = sa.and_(other.c.study_uid == sa.literal_column("''"), other.c.state == JobState.QUEUED.value)
    count = sa.select(sa.func.count()).where(waiting, ahead).scalar_subquery()
    uids: sa.BindParameter[Any] = sa.bindparam("uids", expanding=True)
    return sa.select(jobs.c.uid, (count + 1).label("position")).where(jobs.c.uid.in_(uids))


def _select_places() -> sa.Select[Any]:
    """The same for many at once: the whole queue is numbered, instead of counted for each of them."""
    place = sa.func.row_number().over(order_by=(jobs.c.priority.desc(), jobs.c.sequence))
    queue = sa.select(jobs.c.uid, place.label("position")).where(
        is_job, jobs.c.state == JobState.QUEUED.value
    )
    numbered = queue.subquery()
    uids: sa.BindParameter[Any] = sa.bindparam("uids", expanding=True)
    return sa.select(numbered).where(numbered.c.uid.in_(uids))


#: Built once: a statement's cache key is as much work as running it.
_ACTIVE = _select_active()
_POSITIONS = _select_positions()
_PLACES = _select_places()
#: From so many jobs on it is less work to number the queue than to count for each.
_MANY = 5


class JobStore:
    """Reads and writes ``jobs``; safe for threads."""

    def __init__(self, engine: sa.Engine, logs: LogStore, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._logs = logs
        self._clock = clock
        #: The specifications of the jobs that the loop looks at, by uid: each is read once.
        self._specs: Mapping[str, JobSpec] = {}
        #: Marks this service's containers on the engine, also after a restart.
        self.service_id = read_meta(engine, "service_id")

    def insert(self, spec: JobSpec, owner: str = "") -> JobRecord:
        """
        Store a new QUEUED job, and with it the policy that makes ``owner`` its owner, if there is one.

        :raises JobConflict: the project has a job of this id, ended or not.
        """
        key = {"uid": secrets.token_hex(6), "job_id": spec.job_id}
        values = key | new_values(spec, to_us(self._clock()))
        try:
            with writing(self._engine).begin() as connection:
                row = connection.execute(sa.insert(jobs).values(**values).returning(jobs)).one()
                if owner:
                    insert_policy(connection, job_resource(spec.project, spec.job_id), owner_policy(owner))
                record = record_of(row)
                self._logs.append_with(connection, [state_entry(record, queued_message(record))])
        except IntegrityError as error:
            message = (
                f"job {spec.job_id!r} already exists in project {spec.project!r}; "
                "job ids are never used twice, choose another"
            )
            raise JobConflict(message, code=409, status="ALREADY_EXISTS") from error
        return record

    def get(self, project: str, job_id: str) -> JobRecord:
        """Return one job. :raises JobNotFound: there is none."""
        with self._engine.connect() as connection:
            row = connection.execute(_one(project, job_id)).one_or_none()
        if row is None:
            message = f"job {job_id!r} not found in project {project!r}"
            raise JobNotFound(message, code=404, status="NOT_FOUND")
        return shown_record(row)

    def find_by_uid(self, uid: str) -> JobRecord | None:
        """Return the job that the engine knows by ``uid``; ``None``: there is none."""
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(jobs).where(jobs.c.uid == uid)).one_or_none()
        return shown_record(row) if row is not None else None

    def list_page(
        self, project: str, *, filter_text: str, page_size: int, page_token: str
    ) -> tuple[list[JobRecord], str]:
        """
        Return one page of a project's jobs, newest first, and the token of the next (empty: no more).

        :raises InvalidFilter: the filter or the token cannot be read.
        """
        query = newest_first(sa.select(jobs).where(wanted_jobs(project, filter_text)), page_size, page_token)
        with self._engine.connect() as connection:
            page, token = one_page(list(connection.execute(query)), page_size)
        return [shown_record(row) for row in page], token

    def list_active(self) -> list[JobRecord]:
        """Return the jobs and trials of :meth:`read_active` that can be read."""
        return list(self.read_active().jobs)

    def read_active(self) -> ActiveJobs:
        """
        Return the jobs and trials that the loop has to look at, oldest first; a row that cannot be read stops no other.

        They are: all that have left the queue and not ended; the head of the queue, since nobody overtakes in it; the
        trials that wait; and all that may have waited longer than they want to. What stands further back costs nothing.
        """
        with self._engine.connect() as connection:
            rows = connection.execute(_ACTIVE, {"now": to_us(self._clock())}).all()
        known = self._specs
        found: list[JobRecord] = []
        unreadable: list[UnreadableJob] = []
        for row in rows:
            try:
                found.append(record_of(row, known.get(row.uid)))
            except UNREADABLE as error:
                unreadable.append(UnreadableJob(record=bare_record(row), why=str(error) or repr(error)))
        self._specs = {record.uid: record.spec for record in found}
        return ActiveJobs(jobs=found, unreadable=unreadable)

    def count_by_state(self) -> dict[JobState, int]:
        """Return how many jobs are in each state; states without a job are absent."""
        query = sa.select(jobs.c.state, sa.func.count()).where(is_job).group_by(jobs.c.state)
        counts: Counter[JobState] = Counter()
        with self._engine.connect() as connection:
            for state, count in connection.execute(query):
                counts[state_of(state)] += count
        return dict(counts)

    def queue_positions(self, uids: Sequence[str]) -> dict[str, int]:
        """Return the 1-based places of those of the jobs ``uids`` that are QUEUED, by uid; the fewer are asked for, the better."""
        if not uids:
            return {}
        query = _POSITIONS if len(uids) < _MANY else _PLACES
        with self._engine.connect() as connection:
            return {row.uid: row.position for row in connection.execute(query, {"uids": uids})}

    def advance(
        self, record: JobRecord, to: JobState, *, at: datetime, message: str, reason: Reason | None = None
    ) -> bool:
        """
        Write ``to`` as the job's state if it still is in ``record.state`` with the same outcome, and ``message`` to its log.

        :return: whether it was; ``False`` means somebody else moved the job first, and nothing was written.
        :raises IllegalTransition: ``to`` does not follow ``record.state``.
        """
        advance(record.state, to)
        values: dict[str, Any] = {"state": to.value, "version": jobs.c.version + 1}
        if to in _TIME_COLUMN:
            values[_TIME_COLUMN[to]] = to_us(at)
        if reason:
            values |= reason_values(reason)
        same = sa.and_(
            jobs.c.uid == record.uid,
            jobs.c.state == record.state.value,
            jobs.c.outcome == (record.outcome or ""),
        )
        with writing(self._engine).begin() as connection:
            if connection.execute(sa.update(jobs).where(same).values(**values)).rowcount == 0:
                return False
            severity = Severity.ERROR if to is JobState.FAILED else Severity.INFO
            entry = log_entry(record, at, message, severity, state=to)
            self._logs.append_with(connection, [entry])
        return True

    def set_labels(self, record: JobRecord, labels: Mapping[str, str]) -> bool:
        """
        Write ``labels`` as all the job's labels if nothing was written since ``record`` was read.

        :return: whether so; ``False`` means that somebody else wrote first, and nothing was written.
        """
        same = sa.and_(jobs.c.uid == record.uid, jobs.c.version == record.version)
        values = {"labels": dict(labels), "version": record.version + 1}
        with writing(self._engine).begin() as connection:
            return connection.execute(sa.update(jobs).where(same).values(**values)).rowcount == 1

    def record_image(self, record: JobRecord, reference: str, image_id: str) -> None:
        """Keep the engine's id of one of the job's images; an empty id forgets it."""
        with writing(self._engine).begin() as connection:
            query = sa.select(jobs.c.images).where(jobs.c.uid == record.uid)
            images = {**connection.execute(query).scalar_one(), reference: image_id}
            known = {name: value for name, value in images.items() if value}
            connection.execute(sa.update(jobs).where(jobs.c.uid == record.uid).values(images=known))

    def record_outcome(
        self,
        record: JobRecord,
        outcome: JobState,
        reason: Reason | None = None,
        summary: Mapping[str, Any] | None = None,
    ) -> bool:
        """
        Keep how the job will end, if it still is in ``record.state`` and nothing was decided yet.

        :param reason: why, unless it ends well.
        :param summary: a line of the job's log that goes with it.
        :return: whether it was; ``False`` means that somebody else decided first, and nothing was written.
        """
        same = sa.and_(jobs.c.uid == record.uid, jobs.c.state == record.state.value, jobs.c.outcome == "")
        values = {"outcome": outcome.value} | (reason_values(reason) if reason else {})
        with writing(self._engine).begin() as connection:
            if connection.execute(sa.update(jobs).where(same).values(**values)).rowcount == 0:
                return False
            if summary:
                entry = log_entry(record, self._clock(), summary["message"], Severity.INFO)
                self._logs.append_with(connection, [replace(entry, json_payload=dict(summary))])
        return True

    def record_attempts(self, record: JobRecord, attempts: Attempts, message: str = "") -> None:
        """Keep what is to be started again, and ``message`` in the job's log."""
        with writing(self._engine).begin() as connection:
            values = {"attempts": attempts.to_json()}
            connection.execute(sa.update(jobs).where(jobs.c.uid == record.uid).values(**values))
            if message:
                entry = log_entry(record, self._clock(), message, Severity.WARNING)
                self._logs.append_with(connection, [entry])

    def note(self, record: JobRecord, message: str, severity: Severity = Severity.INFO) -> None:
        """Write a line of the service's own to the job's log."""
        self._logs.append([log_entry(record, self._clock(), message, severity)])


def _one(project: str, job_id: str) -> sa.Select[Any]:
    return sa.select(jobs).where(is_job, jobs.c.project == project, jobs.c.job_id == job_id)
