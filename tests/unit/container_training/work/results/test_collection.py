"""What a job left: its metrics, its times, and the words where there are none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from container_training.work.results.collection import (
    no_metrics,
    parse_metrics,
    require_succeeded,
    state_times,
)
from tests.support.fakes.fake_service import EPOCH, make_job
from training_api.cloud_logging import LogEntry, MonitoredResource
from training_api.errors import JobFailed, ResultsMissing
from training_api.states import JobState

URI = "gs://b/jobs/1/metrics.json"


def state_line(state: object, seconds: float, trial: str = "") -> LogEntry:
    """Return the service's line of a change of state."""
    return LogEntry(
        log_name="projects/demo/logs/ml.googleapis.com",
        resource=MonitoredResource(labels={"task_name": "service"}),
        timestamp=EPOCH + timedelta(seconds=seconds),
        insert_id="1",
        labels={"ml.googleapis.com/trial_id": trial} if trial else {},
        json_payload={"message": "x", "state": state},
    )


# --- whether there are results


def test_a_job_that_succeeded_has_results() -> None:
    require_succeeded(make_job(state=JobState.SUCCEEDED))


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
def test_a_job_that_ended_otherwise_has_none_and_says_why(state: JobState) -> None:
    with pytest.raises(JobFailed, match=f"ended as {state}: out of memory"):
        require_succeeded(make_job(state=state, error_message="out of memory"))


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING])
def test_a_job_that_goes_on_has_none_yet(state: JobState) -> None:
    with pytest.raises(ResultsMissing, match="wait for its end first"):
        require_succeeded(make_job(state=state))


# --- metrics


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        (b"{}", {}),
        (b'{"accuracy": 0.97, "epochs": 3, "note": "x"}', {"accuracy": 0.97, "epochs": 3, "note": "x"}),
        (b'{"loss": NaN, "best": -Infinity, "huge": 1e999}', {"loss": None, "best": None, "huge": None}),
        ('{"güte": [1, {"a": NaN}]}'.encode(), {"güte": [1, {"a": None}]}),
    ],
)
def test_metrics_are_read_and_what_is_no_number_is_nothing(text: bytes, metrics: dict[str, Any]) -> None:
    assert parse_metrics(text, URI) == metrics


@pytest.mark.parametrize("text", [b"", b"accuracy: 0.97", b"\xff\xfe", b'{"a": 1', b"[" * 200_000])
def test_what_is_no_json_is_named_with_its_file(text: bytes) -> None:
    with pytest.raises(ResultsMissing, match=f"{URI} is not JSON that can be read, got "):
        parse_metrics(text, URI)


@pytest.mark.parametrize(("text", "kind"), [(b"[1]", "list"), (b"0.97", "float"), (b"null", "NoneType")])
def test_json_that_is_no_object_is_named_by_its_kind(text: bytes, kind: str) -> None:
    with pytest.raises(ResultsMissing, match=f"holds a JSON {kind}"):
        parse_metrics(text, URI)


def test_a_job_without_metrics_is_told_with_what_is_there_instead() -> None:
    folder = "gs://b/jobs/1/"

    assert "the folder is empty" in str(no_metrics("j", URI, folder, []))
    many = str(no_metrics("j", URI, folder, [f"f{number:02d}" for number in range(11, -1, -1)]))
    assert "left no 'metrics.json' in gs://b/jobs/1/" in many
    assert "f00, f01, f02, f03, f04, f05, f06, f07, f08, f09 ..." in many


# --- times


def test_the_times_of_states_are_those_of_the_services_lines() -> None:
    job = make_job(create_time=EPOCH - timedelta(hours=1), start_time=EPOCH, end_time=EPOCH)
    lines = [
        state_line("QUEUED", 1),
        state_line("PREPARING", 2),
        state_line("RUNNING", 3),
        state_line("PREPARING", 4),
        state_line("SUCCEEDED", 9),
    ]

    times = state_times(job, lines)

    moments = (times.queued_at, times.preparing_at, times.running_at, times.ended_at)
    assert moments == tuple(EPOCH + timedelta(seconds=seconds) for seconds in (1, 2, 3, 9))


def test_without_lines_the_jobs_own_times_count() -> None:
    started, ended = EPOCH + timedelta(seconds=5), EPOCH + timedelta(seconds=9)

    times = state_times(make_job(start_time=started, end_time=ended), [])

    assert (times.queued_at, times.preparing_at) == (EPOCH, None)
    assert (times.running_at, times.ended_at) == (started, ended)


def test_the_states_of_trials_and_words_that_are_no_state_do_not_count() -> None:
    ended = EPOCH + timedelta(seconds=9)
    lines = [state_line("RUNNING", 1, trial="3"), state_line("ASLEEP", 2), state_line(None, 3)]

    assert state_times(make_job(end_time=ended), lines).running_at is None


@pytest.mark.parametrize("changes", [{"create_time": None, "end_time": EPOCH}, {"end_time": None}])
def test_a_job_without_a_beginning_or_an_end_has_no_duration(changes: dict[str, Any]) -> None:
    with pytest.raises(ResultsMissing, match="its duration is unknown"):
        state_times(make_job(**changes), [])
