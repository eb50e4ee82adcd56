"""Rows of the table of jobs as records, and the service's own lines of their logs."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.log_wire import SERVICE_TASK_NAME, Severity
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.job.job_spec import accepted_job_spec
from training_api.job.restarts import Attempts
from training_api.job.tuning.trial_spec import trial_spec
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord, Trial
from training_service.store.database import from_us
from training_service.store.log_store import NewLogEntry


def record_of(row: Any) -> JobRecord:
    """Return a row's job, or trial."""
    trial = _trial(row) if row.study_uid else None
    job = Job(
        job_id=row.trial["job_id"] if trial else row.job_id,
        labels=row.labels or None,
        training_input=TrainingInput.model_validate(row.training_input),
    )
    return JobRecord(
        uid=row.uid,
        sequence=row.sequence,
        spec=(
            trial_spec(row.project, job, trial.number, trial.hyperparameters)
            if trial
            else accepted_job_spec(row.project, job)
        ),
        state=JobState(row.state),
        created_at=from_us(row.created_us),
        preparing_at=moment_of(row.preparing_us),
        running_at=moment_of(row.running_us),
        ended_at=moment_of(row.ended_us),
        reason=Reason.from_json(row.error_message, row.reason),
        images=row.images,
        attempts=Attempts.from_json(row.attempts),
        outcome=JobState(row.outcome) if row.outcome else None,
        version=row.version,
        trial=trial,
    )


def reason_values(reason: Reason) -> dict[str, Any]:
    """Return the columns of a reason."""
    return {"error_message": reason.message, "reason": reason.to_json()}


def _trial(row: Any) -> Trial:
    return Trial(
        study_uid=row.study_uid,
        study_sequence=row.trial["sequence"],
        number=row.trial["number"],
        hyperparameters=row.trial["hyperparameters"],
        stopped=row.trial.get("stopped", ""),
        spared=row.trial.get("spared", ""),
    )


def moment_of(microseconds: int | None) -> datetime | None:
    """Return a column of time."""
    return None if microseconds is None else from_us(microseconds)


def state_entry(record: JobRecord, message: str) -> NewLogEntry:
    """Return the line of a new record\'s first state."""
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
