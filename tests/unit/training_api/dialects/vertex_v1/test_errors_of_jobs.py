"""The ``error`` of a job: its code and its words."""

from __future__ import annotations

import pytest

from training_api.causes import Cause
from training_api.dialects.vertex_v1.errors_of_jobs import job_error


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (Cause.PROGRAM_ERROR, 3),
        (Cause.OUT_OF_MEMORY, 8),
        (Cause.QUOTA, 8),
        (Cause.CANCELLED, 1),
        (Cause.RAN_TOO_LONG, 1),
        (Cause.ACCESS, 9),
        (Cause.ENGINE, 13),
    ],
)
def test_each_cause_has_its_code(cause: Cause, code: int) -> None:
    assert job_error(cause, "why", "123")["code"] == code


def test_what_a_program_ended_by_names_its_log() -> None:
    assert job_error(Cause.PROGRAM_ERROR, "It exited.", "123")["message"] == (
        "It exited.\n\nTo find out more about why your job exited please check the logs: "
        'resource.type="ml_job" AND resource.labels.job_id="123"'
    )


def test_a_cancel_has_the_word_that_clients_look_for() -> None:
    assert job_error(Cause.CANCELLED, "The job was cancelled on request.", "1")["message"] == (
        "CANCELED: The job was cancelled on request."
    )
