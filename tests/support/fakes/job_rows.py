"""Rows of jobs, as the training service answers with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.states import JobState

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """Return the moment ``seconds`` after noon."""
    return NOON + timedelta(seconds=seconds)


def make_row(**changes: Any) -> JobRow:
    """Return a job created at noon that left the queue after 2 s and has been RUNNING since 5 s."""
    row = {
        "job_id": "train_1",
        "state": JobState.RUNNING,
        "create_time": NOON,
        "prepare_time": after(2),
        "start_time": after(5),
        "training_input": {"scaleTier": "CUSTOM", "masterType": "n1-standard-4"},
    }
    return JobRow.model_validate(row | changes)
