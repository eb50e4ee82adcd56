"""Watching a job of a live service from a test: until a state, until its end, its lines."""

from __future__ import annotations

from tests.support.waiting import end_of, wait_until
from training_api.clients.backend import TrainingBackend
from training_api.clients.log_cursor import job_log_filter
from training_api.dialects.ml_v1.resources import Job
from training_api.states import JobState

#: A job may have to wait for those of other tests.
_SECONDS = 120.0


def until_state(training: TrainingBackend, job_id: str, state: JobState) -> Job:
    """Return the job once it is in ``state``; fail the test if it ends otherwise."""
    job = _until(training, job_id, state)
    assert job.state is state, f"{job_id} is {job.state}, not {state}: {job.error_message}"
    return job


def until_end(training: TrainingBackend, job_id: str) -> Job:
    """Return the job once it has ended, in whatever way."""
    return _until(training, job_id)


def _until(training: TrainingBackend, job_id: str, state: JobState | None = None) -> Job:
    def reached() -> Job:
        job = training.get_job(job_id)
        is_reached = job.state is not None and (job.state is state or job.state.is_terminal)
        assert is_reached, f"{job_id} is {job.state}"
        return job

    what = f"{job_id} is {state}" if state else f"{job_id} has ended"
    try:
        return wait_until(reached, what, seconds=_SECONDS, ignoring=AssertionError)
    except AssertionError as error:
        raise AssertionError(f"{error}; its log ends: {end_of(messages(training, job_id))}") from error


def messages(training: TrainingBackend, job_id: str) -> list[str]:
    """Return the first thousand lines of the job's log, each with its task."""
    entries = training.list_log_entries(job_log_filter(job_id), page_size=1000).entries or []
    return [f"{entry.task_name}: {entry.message}" for entry in entries]


def messages_that(training: TrainingBackend, job_id: str, condition: str) -> list[str]:
    """Return the first thousand lines of the job that meet a condition of the filter language."""
    wanted = f"{job_log_filter(job_id)} AND {condition}"
    return [entry.message for entry in training.list_log_entries(wanted, page_size=1000).entries or []]
