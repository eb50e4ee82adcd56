"""
Jobs in the database: what was asked and how far it got.

Every write is one transaction. A state change is compare-and-swap on the state that the writer saw. It writes
the service's log line with it, so that neither exists without the other.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from training_api.cloud_logging import Severity
from training_api.errors import JobConflict, JobNotFound
from training_api.job.dialect import Dialect
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import Attempts
from training_api.states import LIVING, TERMINAL, JobState, advance
from training_service.model.clock import Clock, utc_now
from training_service.model.job_messages import queued_message
from training_service.model.pipelines import NewPipeline
from training_service.model.reasons import Reason
from training_service.model.records import ActiveJobs, JobRecord, UnreadableJob
from training_service.model.resources import job_resource, owner_policy
from training_service.store.database import read_meta, to_us, writing
from training_service.store.jobs.job_list import (
    in_region,
    is_study,
    newest_first,
    one_page,
    wanted_jobs,
)
from training_service.store.jobs.job_queue import ACTIVE, BY_UID, places_in_queue
from training_service.store.jobs.job_rows import (
    bare_record,
    log_entry,
    new_values,
    reason_values,
    record_of,
    shown_record,
    state_entry,
    state_of,
)
from training_service.store.jobs.stored_spec import UNREADABLE
from training_service.store.jobs.success_store import record_success
from training_service.store.logs.log_store import LogStore
from training_service.store.pipelines.pipeline_writes import end_pipeline, insert_pipeline
from training_service.store.policy_store import insert_policy
from training_service.store.tables import is_job, jobs

_TIME_COLUMN = {
    JobState.PREPARING: "preparing_us",
    JobState.RUNNING: "running_us",
    **dict.fromkeys(TERMINAL, "ended_us"),
}


#: What the end of a job is written from, in other tables.
_AFTER_A_MOVE = tuple(
    jobs.c[name] for name in ("uid", "labels", "state", "preparing_us", "ended_us", "error_message", "reason")
)
#: Values in one statement; databases limit them.
_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class _Read:
    """A row as it came, and what was made of it."""

    row: Any
    job: JobRecord | UnreadableJob


class JobStore:
    """Reads and writes ``jobs``; safe for threads."""

    def __init__(self, engine: sa.Engine, logs: LogStore, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._logs = logs
        self._clock = clock
        #: The jobs that the loop polls, by uid: what has not changed is not parsed again.
        self._read: Mapping[str, _Read] = {}
        #: Marks this service's containers on the engine, also after a restart.
        self.service_id = read_meta(engine, "service_id")

    def insert(
        self,
        spec: JobSpec,
        request: Mapping[str, Any],
        owner: str = "",
        pipeline: NewPipeline | None = None,
    ) -> JobRecord:
        """
        Store a new QUEUED job, and with it the policy that makes ``owner``, if given, its owner.

        :param request: the job as it was asked for, in the canonical JSON of its dialect.
        :param pipeline: what it is made for, written with it: neither is ever there without the other.
        :raises JobConflict: the project has a job of this id, ended or not.
        """
        key = {"uid": secrets.token_hex(6), "job_id": spec.job_id}
        values = key | new_values(spec, request, to_us(self._clock()))
        try:
            with writing(self._engine).begin() as connection:
                row = connection.execute(sa.insert(jobs).values(**values).returning(jobs)).one()
                if owner:
                    insert_policy(connection, job_resource(spec.project, spec.job_id), owner_policy(owner))
                record = record_of(row)
                if pipeline:
                    insert_pipeline(connection, record, pipeline)
                self._logs.append_with(connection, [state_entry(record, queued_message(record))])
        except IntegrityError as error:
            raise JobConflict(
                f"job {spec.job_id!r} already exists in project {spec.project!r}; "
                "job ids are never used twice, choose another"
            ) from error
        return record

    def projects(self) -> list[str]:
        """Return the projects that have jobs."""
        query = sa.select(jobs.c.project).where(is_job).distinct()
        with self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def get(self, project: str, job_id: str) -> JobRecord:
        """Return one job. :raises JobNotFound: there is none."""
        with self._engine.connect() as connection:
            row = connection.execute(_one(project, job_id)).one_or_none()
        if row is None:
            raise JobNotFound(f"job {job_id!r} not found in project {project!r}")
        return shown_record(row)

    def find_by_uid(self, uid: str) -> JobRecord | None:
        """Return the job that the engine knows by ``uid``; ``None``: there is none."""
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(jobs).where(jobs.c.uid == uid)).one_or_none()
        return shown_record(row) if row is not None else None

    def known(self, uids: Collection[str]) -> set[str]:
        """Return those of ``uids`` that are of jobs or trials, ended or not."""
        query = sa.select(jobs.c.uid).where(jobs.c.uid.in_(list(uids)))
        with self._engine.connect() as connection:
            return set(connection.execute(query).scalars())

    def list_page(
        self,
        project: str,
        *,
        dialect: Dialect,
        filter_text: str,
        page_size: int,
        page_token: str,
        region: str = "",
        tunes: bool | None = None,
    ) -> tuple[list[JobRecord], str]:
        """
        Return a page of a project's jobs, newest first, and the next page's token (empty: none).

        :param dialect: that of the jobs, and of the filter.
        :param region: only jobs that are said to run there; empty: all.
        :param tunes: only jobs that tune, or that do not; ``None``: all.
        :raises InvalidFilter: the filter or the token cannot be read.
        """
        wanted = sa.and_(
            wanted_jobs(project, dialect.read_filter(filter_text), dialect.filter_fields),
            jobs.c.dialect == dialect.name,
            *([in_region(region)] if region else []),
            *([] if tunes is None else [is_study(tunes)]),
        )
        query = newest_first(sa.select(jobs).where(wanted), page_size, page_token)
        with self._engine.connect() as connection:
            page, token = one_page(list(connection.execute(query)), page_size)
        return [shown_record(row) for row in page], token

    def list_active(self) -> list[JobRecord]:
        """Return the jobs and trials of :meth:`read_active` that can be read."""
        return list(self.read_active().jobs)

    def read_active(self) -> ActiveJobs:
        """
        Return the jobs and trials for the loop, oldest first; an unreadable row stops no other.

        They are: all that have left the queue and not ended; the head of the queue, since no job overtakes
        another; the waiting trials; and the first of those that have waited too long. Others cost nothing.
        """
        before = self._read
        now: dict[str, _Read] = {}
        with self._engine.connect() as connection:
            found_rows = connection.execute(ACTIVE, {"now": to_us(self._clock())}).all()
            rows = {row.uid: row for row in found_rows}
            changed = [uid for uid, row in rows.items() if uid not in before or before[uid].row != row]
            for start in range(0, len(changed), _ROWS_AT_ONCE):
                for parsed in connection.execute(BY_UID, {"uids": changed[start : start + _ROWS_AT_ONCE]}):
                    job = _job_of(parsed, before.get(parsed.uid))
                    now[parsed.uid] = _Read(row=rows[parsed.uid], job=job)
        # In the order of the rows; without those that were removed between the two queries.
        gone = set(changed) - now.keys()
        found = {uid: now.get(uid) or before[uid] for uid in rows if uid not in gone}
        self._read = found
        jobs_read = [read.job for read in found.values()]
        return ActiveJobs(
            jobs=[job for job in jobs_read if isinstance(job, JobRecord)],
            unreadable=[job for job in jobs_read if isinstance(job, UnreadableJob)],
        )

    def active_uids(self, among: Collection[str] | None = None) -> set[str]:
        """Return the uids of all jobs and trials, or of those ``among`` some, that have not ended."""
        query = sa.select(jobs.c.uid).where(jobs.c.state.in_(sorted(LIVING)))
        if among is not None:
            query = query.where(jobs.c.uid.in_(list(among)))
        with self._engine.connect() as connection:
            return set(connection.execute(query).scalars())

    def count_by_state(self) -> dict[JobState, int]:
        """Return how many jobs are in each state; states without a job are absent."""
        query = sa.select(jobs.c.state, sa.func.count()).where(is_job).group_by(jobs.c.state)
        counts: Counter[JobState] = Counter()
        with self._engine.connect() as connection:
            for state, count in connection.execute(query):
                counts[state_of(state)] += count
        return dict(counts)

    def queue_positions(self, uids: Sequence[str], *, are_new: bool = False) -> dict[str, int]:
        """
        Return the 1-based queue positions, by uid, of those of ``uids`` that are QUEUED.

        The fewer uids, the faster.

        :param are_new: use the connections that write jobs, so that readers do not delay an answer.
        """
        if not uids:
            return {}
        engine = self._engine.get_execution_options().get("writer") if are_new else None
        with (engine or self._engine).connect() as connection:
            return places_in_queue(connection, uids)

    def advance(
        self, record: JobRecord, to: JobState, *, at: datetime, message: str, reason: Reason | None = None
    ) -> bool:
        """
        Write ``to`` as the job's state, and ``message`` to its log, unless the job has moved.

        It has moved if its state or its outcome is no longer that of ``record``.

        :return: whether it was written; ``False``: another writer was first, and nothing was written.
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
            moved = connection.execute(sa.update(jobs).where(same).values(**values).returning(*_AFTER_A_MOVE))
            row = moved.one_or_none()
            if row is None:
                return False
            if to.is_terminal and not record.trial:
                end_pipeline(connection, row)
            if to is JobState.SUCCEEDED and not record.trial:
                record_success(connection, row.labels, to_us(at))
            severity = Severity.ERROR if to is JobState.FAILED else Severity.INFO
            entry = log_entry(record, at, message, severity, state=to)
            self._logs.append_with(connection, [entry])
        return True

    def set_labels(self, record: JobRecord, labels: Mapping[str, str]) -> bool:
        """
        Write ``labels`` as all the job's labels if nothing was written since ``record`` was read.

        :return: whether it was; ``False``: another writer was first, and nothing was written.
        """
        same = sa.and_(jobs.c.uid == record.uid, jobs.c.version == record.version)
        values = {"labels": dict(labels), "version": record.version + 1}
        with writing(self._engine).begin() as connection:
            return connection.execute(sa.update(jobs).where(same).values(**values)).rowcount == 1

    def together(self) -> AbstractContextManager[None]:
        """Make one transaction of what this thread writes within the block, where that is faster."""
        return writing(self._engine).together()

    def record_image(self, record: JobRecord, reference: str, image_id: str) -> None:
        """Store the engine's id of one of the job's images; an empty id forgets it."""
        with writing(self._engine).begin() as connection:
            query = sa.select(jobs.c.images).where(jobs.c.uid == record.uid).with_for_update()
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
        Store how the job will end, if it is still in ``record.state`` and has no outcome.

        :param reason: why, unless it succeeds.
        :param summary: a line of the job's log that goes with it.
        :return: whether it was; ``False``: another writer was first, and nothing was written.
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
        """Store what is to be restarted, and ``message`` in the job's log."""
        with writing(self._engine).begin() as connection:
            values = {"attempts": attempts.to_json()}
            connection.execute(sa.update(jobs).where(jobs.c.uid == record.uid).values(**values))
            if message:
                entry = log_entry(record, self._clock(), message, Severity.WARNING)
                self._logs.append_with(connection, [entry])

    def note(self, record: JobRecord, message: str, severity: Severity = Severity.INFO) -> None:
        """Write a line of the service to the job's log."""
        self._logs.append([log_entry(record, self._clock(), message, severity)])


def _one(project: str, job_id: str) -> sa.Select[Any]:
    return sa.select(jobs).where(is_job, jobs.c.project == project, jobs.c.job_id == job_id)


def _job_of(row: Any, before: _Read | None) -> JobRecord | UnreadableJob:
    """Return the row's job; a known specification is not read again, as it never changes."""
    known = before.job.spec if before and isinstance(before.job, JobRecord) else None
    try:
        return record_of(row, known)
    except UNREADABLE as error:
        return UnreadableJob(record=bare_record(row), why=str(error) or repr(error))
