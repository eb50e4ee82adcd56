"""
Trials in the database: rows of the table of jobs that belong to a tuning job.

``job_store.py`` writes what all records have: states, images and attempts.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from training_api.cloud_logging import Severity
from training_api.job.job_spec import JobSpec
from training_api.states import TERMINAL, JobState
from training_service.model.clock import Clock, utc_now
from training_service.model.job_messages import queued_message
from training_service.model.records import JobRecord, TrialSummary
from training_service.store.database import to_us, writing
from training_service.store.jobs.job_rows import (
    log_entry,
    moment_of,
    new_values,
    record_of,
    shown_record,
    state_entry,
    state_of,
    trial_number,
)
from training_service.store.jobs.stored_spec import mapping_of
from training_service.store.logs.log_store import LogStore
from training_service.store.sql.conflicts import conflict_insert
from training_service.store.tables import is_trial, jobs

#: Values in one statement; databases limit them.
_ROWS_AT_ONCE = 500
#: The columns that show a trial, without its spec, which takes long to check.
_SUMMARY = (
    jobs.c.uid,
    jobs.c.job_id,
    jobs.c.study_uid,
    jobs.c.trial,
    jobs.c.state,
    jobs.c.running_us,
    jobs.c.ended_us,
    jobs.c.error_message,
)


class TrialStore:
    """Reads and writes the trials of tuning jobs; safe for threads."""

    def __init__(self, engine: sa.Engine, logs: LogStore, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._logs = logs
        self._clock = clock

    def insert(
        self,
        study: JobRecord,
        number: int,
        hyperparameters: Mapping[str, str],
        made: tuple[JobSpec, Mapping[str, Any]],
    ) -> bool:
        """
        Store a new QUEUED trial of the tuning job ``study``, unless it is ending or has it.

        The trial runs the images that were pulled for the study, even if a tag has moved since.

        :param made: what the trial runs, and the request that its containers are told.
        :return: whether it was stored.
        """
        trial = {
            "job_id": study.spec.job_id,
            "sequence": study.sequence,
            "number": number,
            "hyperparameters": dict(hyperparameters),
        }
        values = new_values(*made, to_us(self._clock())) | {
            "uid": secrets.token_hex(6),
            "job_id": f"{study.uid}/{number}",
            "images": dict(study.images),
            "study_uid": study.uid,
            "trial": trial,
        }
        with writing(self._engine).begin() as connection:
            row = connection.execute(_insert_trial(connection, study, values)).one_or_none()
            if row is None:
                return False
            record = record_of(row)
            self._logs.append_with(connection, [state_entry(record, queued_message(record))])
        return True

    def summaries(self, study_uids: Iterable[str]) -> list[TrialSummary]:
        """Return the trials of tuning jobs, ended or not, in the order of their numbers."""
        uids = list(study_uids)
        if not uids:
            return []
        query = sa.select(*_SUMMARY).where(is_trial, jobs.c.study_uid.in_(uids)).order_by(jobs.c.sequence)
        with self._engine.connect() as connection:
            return [_summary(row) for row in connection.execute(query)]

    def active(self, study_uid: str) -> list[JobRecord]:
        """Return the trials of a tuning job that have not ended, in the order of their numbers."""
        going_on = jobs.c.state.not_in(sorted(TERMINAL))
        query = (
            sa.select(jobs).where(is_trial, jobs.c.study_uid == study_uid, going_on).order_by(jobs.c.sequence)
        )
        with self._engine.connect() as connection:
            return [shown_record(row) for row in connection.execute(query)]

    def ended(self, study_uid: str, known: Collection[int]) -> list[JobRecord]:
        """Return the ended trials of a tuning job, except those whose sequences are ``known``."""
        ended = sa.and_(is_trial, jobs.c.study_uid == study_uid, jobs.c.state.in_(sorted(TERMINAL)))
        with self._engine.connect() as connection:
            sequences = connection.execute(sa.select(jobs.c.sequence).where(ended)).scalars()
            new = sorted(set(sequences) - set(known))
            rows: list[Any] = []
            for start in range(0, len(new), _ROWS_AT_ONCE):
                some = jobs.c.sequence.in_(new[start : start + _ROWS_AT_ONCE])
                rows += connection.execute(sa.select(jobs).where(some).order_by(jobs.c.sequence))
        return [shown_record(row) for row in rows]

    def count_ended(self, study_uid: str) -> int:
        """Return how many trials of a tuning job have ended."""
        ended = jobs.c.state.in_(sorted(TERMINAL))
        query = sa.select(sa.func.count()).where(is_trial, jobs.c.study_uid == study_uid, ended)
        with self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def record_early_stop(self, trial: JobRecord, reason: str, *, is_spared: bool) -> bool:
        """
        Write that a running trial is stopped early, and so succeeds, or is spared and runs on.

        :return: whether it was written; ``False``: there was a decision about the trial already.
        """
        same = sa.and_(jobs.c.uid == trial.uid, jobs.c.state == trial.state.value, jobs.c.outcome == "")
        outcome = "" if is_spared else JobState.SUCCEEDED.value
        with writing(self._engine).begin() as connection:
            known = connection.execute(
                sa.select(jobs.c.trial).where(same).with_for_update()
            ).scalar_one_or_none()
            if known is None or known.get("spared"):
                return False
            kept = known | {"spared" if is_spared else "stopped": reason}
            connection.execute(sa.update(jobs).where(same).values(trial=kept, outcome=outcome))
            did = (
                "runs on for comparison, though it would have been stopped"
                if is_spared
                else "is stopped early"
            )
            message = f"Trial {trial.trial_id} {did}: {reason}"
            self._logs.append_with(connection, [log_entry(trial, self._clock(), message, Severity.INFO)])
        return True


def _insert_trial(connection: sa.Connection, study: JobRecord, values: Mapping[str, Any]) -> sa.Insert:
    """
    Return the statement that stores a trial if its study is active and has no such trial.

    The study's row is locked until the transaction ends, so no cancel comes between check and write.
    """
    columns = [sa.literal(value, jobs.c[name].type).label(name) for name, value in values.items()]
    goes_on = sa.and_(jobs.c.uid == study.uid, jobs.c.state == study.state.value, jobs.c.outcome == "")
    return (
        conflict_insert(connection.dialect.name, jobs)
        .from_select(list(values), sa.select(*columns).where(goes_on).with_for_update(read=True))
        .on_conflict_do_nothing(index_elements=[jobs.c.project, jobs.c.job_id])
        .returning(jobs)
    )


def _summary(row: Any) -> TrialSummary:
    trial = mapping_of(row.trial)
    return TrialSummary(
        uid=row.uid,
        study_uid=row.study_uid,
        number=trial_number(row),
        hyperparameters=mapping_of(trial.get("hyperparameters")),
        state=state_of(row.state),
        running_at=moment_of(row.running_us),
        ended_at=moment_of(row.ended_us),
        stopped=trial.get("stopped", ""),
        error_message=row.error_message or "",
    )
