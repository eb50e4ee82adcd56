"""Rows of the table of jobs as records, and the service's own lines of their logs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from training_api.cloud_logging import SERVICE_TASK_NAME, Severity
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import Attempts
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord, Trial
from training_service.store.database import from_us
from training_service.store.jobs.stored_spec import (
    UNREADABLE,
    mapping_of,
    spec_from_json,
    spec_to_json,
    waits_until_us,
)
from training_service.store.logs.log_store import NewLogEntry


def record_of(row: Any, known: JobSpec | None = None) -> JobRecord:
    """
    Return a row's job, or trial, in a form that can run.

    :param known: its specification, if it was read before: only its labels ever change.
    :raises Exception: one of ``UNREADABLE``: the row cannot be read.
    """
    return _record(
        row,
        spec=replace(known, labels=dict(row.labels)) if known else _spec(row),
        state=JobState(row.state),
        images=dict(row.images),
        attempts=Attempts.from_json(row.attempts),
        outcome=JobState(row.outcome) if row.outcome else None,
        trial=_trial(row, row.trial) if row.study_uid else None,
    )


def shown_record(row: Any) -> JobRecord:
    """Return a row's job in a form to show; an unreadable one as :func:`bare_record` has it."""
    try:
        return record_of(row)
    except UNREADABLE:
        return bare_record(row)


def bare_record(row: Any) -> JobRecord:
    """Return what is certain about any row: a job without replicas, which must not run."""
    trial = _trial(row, mapping_of(row.trial)) if row.study_uid else None
    spec = JobSpec(
        project=row.project,
        job_id=str(mapping_of(row.trial).get("job_id", row.job_id)),
        replicas=(),
        dialect=row.dialect,
        labels=_labels(row),
        priority=row.priority,
        region=str(mapping_of(row.spec).get("region") or ""),
    )
    return _record(
        row,
        spec=spec,
        state=state_of(row.state),
        images={},
        attempts=Attempts(),
        outcome=JobState(row.outcome) if row.outcome in [*JobState] else None,
        trial=trial,
    )


def state_of(stored: str) -> JobState:
    """Return the state of a row; FAILED if this version does not know it, as no loop moves it."""
    return JobState(stored) if stored in [*JobState] else JobState.FAILED


def new_values(spec: JobSpec, request: Mapping[str, Any], created_us: int) -> dict[str, Any]:
    """Return the columns of a new job, or trial, for its specification and its state."""
    return {
        "project": spec.project,
        "labels": spec.labels,
        "dialect": spec.dialect,
        "request": dict(request),
        "spec": spec_to_json(spec),
        "state": JobState.QUEUED.value,
        "priority": spec.priority,
        "created_us": created_us,
        "waits_until_us": waits_until_us(created_us, spec),
    }


def reason_values(reason: Reason) -> dict[str, Any]:
    """Return the columns of a reason."""
    return {"error_message": reason.message, "reason": reason.to_json()}


def _record(row: Any, **fields: Any) -> JobRecord:
    return JobRecord(
        uid=row.uid,
        sequence=row.sequence,
        created_at=from_us(row.created_us),
        preparing_at=moment_of(row.preparing_us),
        running_at=moment_of(row.running_us),
        ended_at=moment_of(row.ended_us),
        reason=Reason.from_json(row.error_message, mapping_of(row.reason)),
        version=row.version,
        request=mapping_of(row.request),
        **fields,
    )


def _spec(row: Any) -> JobSpec:
    return spec_from_json(
        row.spec,
        project=row.project,
        job_id=row.trial["job_id"] if row.study_uid else row.job_id,
        dialect=row.dialect,
        labels=row.labels,
        priority=row.priority,
    )


def _labels(row: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping_of(row.labels).items()}


def _trial(row: Any, stored: dict[str, Any]) -> Trial:
    """Return what makes the row a trial. Its number is part of the row's key."""
    return Trial(
        study_uid=row.study_uid,
        study_sequence=stored.get("sequence", 0),
        number=trial_number(row),
        hyperparameters=mapping_of(stored.get("hyperparameters")),
        stopped=stored.get("stopped", ""),
        spared=stored.get("spared", ""),
    )


def trial_number(row: Any) -> int:
    """Return the number of a row's trial, which is part of its key."""
    return int(row.job_id.rpartition("/")[2])


def trial_id_of(row: Any) -> str:
    """Return the API's ``trialId`` of a row; empty for a job."""
    return str(trial_number(row)) if row.study_uid else ""


def moment_of(microseconds: int | None) -> datetime | None:
    """Return the time in a column."""
    return None if microseconds is None else from_us(microseconds)


def state_entry(record: JobRecord, message: str) -> NewLogEntry:
    """Return the line of a new record's first state."""
    return log_entry(record, record.created_at, message, Severity.INFO, state=record.state)


def log_entry(
    record: JobRecord, at: datetime, message: str, severity: Severity, state: JobState | None = None
) -> NewLogEntry:
    """A line of the service; a state change carries the state, and is stored once per state."""
    insert_id = f"state-{state}{record.trial_id}" if state else f"note-{secrets.token_hex(8)}"
    payload: dict[str, Any] = {"message": message} | ({"state": state.value} if state else {})
    return NewLogEntry(
        project=record.spec.project,
        job_id=record.spec.job_id,
        task_name=SERVICE_TASK_NAME,
        trial_id=record.trial_id,
        insert_id=insert_id,
        timestamp=at,
        severity=severity,
        json_payload=payload,
    )
