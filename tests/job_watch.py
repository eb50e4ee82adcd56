"""Watching a job of a live service from a test: until something holds, until a state, its lines."""

from __future__ import annotations

import time
from collections.abc import Callable

from container_training.clients.training_api import TrainingClient, job_log_filter
from container_training.core.states import JobState
from container_training.core.wire import Job

PATIENCE_SECONDS = 90.0


def until(condition: Callable[[], bool]) -> None:
    """Return once ``condition`` holds; fail the test if it takes too long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not so after {PATIENCE_SECONDS} s"
        time.sleep(0.05)


def until_state(training: TrainingClient, job_id: str, state: JobState) -> Job:
    """Return the job once it is in ``state``; fail the test if it ends otherwise."""
    until(lambda: (now := training.get_job(job_id).state) is state or (now is not None and now.is_terminal))
    job = training.get_job(job_id)
    assert job.state is state, job.error_message
    return job


def messages(training: TrainingClient, job_id: str) -> list[str]:
    """Return the first thousand lines of the job's log, each with its task."""
    entries = training.list_log_entries(job_log_filter(job_id), page_size=1000).entries or []
    return [f"{entry.task_name}: {entry.message}" for entry in entries]
