"""The wait in the triggerer: what ends it, what does not, and what it says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest

from container_training.runtime.killing import TaskFate
from container_training.triggers import training as training_triggers
from container_training.triggers.settling import SETTLE_SECONDS
from container_training.triggers.training import JobTrigger
from tests.support.fakes.fake_service import EPOCH, FakeService, error, make_job
from tests.support.fakes.virtual_time import VirtualClock
from tests.support.speed import scaled
from tests.support.waiting import wait_until_async
from training_api.states import JobState

ARGUMENTS: dict[str, Any] = {
    "job_id": "digits_1",
    "until": "finished",
    "training_conn_id": "training_default",
    "deadline_at": (EPOCH + timedelta(hours=1)).isoformat(),
    "poll_interval_seconds": 1.0,
    "stream_logs": True,
    "cancel_on_kill": True,
    "max_cost": None,
    "owner": "token",
    "watch": None,
}


def run_trigger(clock: VirtualClock, **changes: Any) -> dict[str, Any]:
    trigger = JobTrigger(**{**ARGUMENTS, **changes})
    trigger.now = clock.now

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (event,) = clock.run(events())
    return event  # type: ignore[no-any-return]


def times_of(service: FakeService, clock: VirtualClock) -> list[float]:
    """Return the list that will have the moment of each request."""
    times: list[float] = []
    service.on_request = lambda: times.append(clock.seconds)
    return times


def test_serialize_returns_every_argument() -> None:
    path, arguments = JobTrigger(**ARGUMENTS).serialize()

    assert path == "container_training.triggers.training.JobTrigger"
    assert arguments == ARGUMENTS


def test_the_wait_ends_when_the_job_has_succeeded(service: FakeService) -> None:
    service.add(make_job(state=JobState.RUNNING))
    clock = VirtualClock(*[lambda: None] * 9, lambda: service.move("digits_1", JobState.SUCCEEDED))

    event = run_trigger(clock)

    assert event == {
        "outcome": "REACHED",
        "job_id": "digits_1",
        "state": "SUCCEEDED",
        "message": "",
        "job_dir": "gs://bucket/jobs/digits_1",
        "region": "us-central1",
    }
    assert clock.seconds == 10.0


def test_a_task_stays_deferred_until_the_scheduler_has_seen_its_worker_end(service: FakeService) -> None:
    service.add(make_job(state=JobState.SUCCEEDED))
    clock = VirtualClock()

    event = run_trigger(clock)

    assert event["state"] == "SUCCEEDED"
    assert clock.seconds == SETTLE_SECONDS


@pytest.mark.parametrize(
    ("until", "states", "end"),
    [
        ("left_queued", ["QUEUED", "PREPARING"], "PREPARING"),
        ("left_preparing", ["PREPARING", "RUNNING"], "RUNNING"),
        ("left_queued", ["QUEUED", "CANCELLING", "CANCELLED"], "CANCELLED"),
        ("left_preparing", ["PREPARING", "FAILED"], "FAILED"),
        ("finished", ["RUNNING", "CANCELLING", "CANCELLED"], "CANCELLED"),
    ],
)
def test_each_wait_ends_at_its_own_state(
    service: FakeService, until: str, states: list[str], end: str
) -> None:
    service.add(make_job(state=states[0]))
    acts = [lambda state=state: service.move("digits_1", JobState(state)) for state in states[1:]]

    event = run_trigger(VirtualClock(*acts), until=until)

    assert event["state"] == end


def test_a_service_that_is_down_does_not_end_the_wait_and_is_mentioned_once(
    service: FakeService, log_lines: Sequence[str]
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    service.faults = [httpx.ConnectError("refused")] * 4 + [error(503, "UNAVAILABLE", "starting"), None]
    clock = VirtualClock(*[lambda: None] * 5, lambda: service.move("digits_1", JobState.SUCCEEDED))

    event = run_trigger(clock)

    assert event["state"] == "SUCCEEDED"
    gone = [line for line in log_lines if "still waiting, until 2026-11-20T10:00:00" in line]
    assert len(gone) == 1
    assert "training.test:8470 did not answer" in gone[0]
    assert len([line for line in log_lines if "answers again" in line]) == 1


def test_the_pauses_between_failures_grow_up_to_ten_seconds(service: FakeService) -> None:
    service.faults = [httpx.ConnectError("refused")] * 1000
    clock = VirtualClock()
    times = times_of(service, clock)

    event = run_trigger(clock)

    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert event["outcome"] == "TIMED_OUT"
    assert pauses[0] == 1.0
    assert 5.0 <= max(pauses) <= 10.0
    assert clock.seconds == pytest.approx(3600.0)


def test_a_retry_after_of_the_service_is_honoured(service: FakeService) -> None:
    service.add(make_job(state=JobState.SUCCEEDED))
    service.faults = [error(429, "RESOURCE_EXHAUSTED", "slow down", **{"Retry-After": "42"})]
    clock = VirtualClock()

    run_trigger(clock)

    assert clock.seconds == 42.0


def test_the_wait_gives_up_at_its_deadline_and_leaves_the_job_alone(service: FakeService) -> None:
    service.add(make_job(state=JobState.RUNNING))
    clock = VirtualClock()

    event = run_trigger(clock, deadline_at=(EPOCH + timedelta(seconds=12.5)).isoformat())

    assert (event["outcome"], event["state"]) == ("TIMED_OUT", "RUNNING")
    assert clock.seconds == 12.5
    assert service.count("POST", ":cancel") == 0


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (error(404, "NOT_FOUND", "no such job"), "JobNotFound"),
        (error(400, "INVALID_ARGUMENT", "bad"), "ServiceError"),
        (error(401, "UNAUTHENTICATED", "who"), "AccessDenied"),
        (error(403, "PERMISSION_DENIED", "no"), "AccessDenied"),
    ],
)
def test_a_permanent_error_ends_the_wait_at_once(
    service: FakeService, answer: httpx.Response, name: str
) -> None:
    service.faults = [answer] * 2  # the list, and then the job itself
    clock = VirtualClock()

    event = run_trigger(clock)

    assert (event["outcome"], event["error"]) == ("REFUSED", name)
    assert clock.seconds == SETTLE_SECONDS
    assert len(service.requests) <= 2


def test_an_unknown_connection_ends_the_wait_with_its_name(service: FakeService) -> None:
    event = run_trigger(VirtualClock(), training_conn_id="elsewhere")

    assert event["outcome"] == "REFUSED"
    assert "elsewhere" in event["message"]


def test_every_log_line_is_shown_once_also_over_pages_and_faults(
    service: FakeService, log_lines: Sequence[str]
) -> None:
    service.page_size = 3
    service.add(make_job(state=JobState.RUNNING))
    for number in range(8):
        service.write("digits_1", f"line {number}")

    def late_line_with_an_early_time() -> None:
        service.write("digits_1", "late", timestamp=EPOCH - timedelta(seconds=5))
        service.write("digits_1", "newer")
        service.faults = [None, None, None, httpx.ReadError("reset")]

    def end() -> None:
        service.write("digits_1", "last")
        service.move("digits_1", JobState.SUCCEEDED)

    run_trigger(VirtualClock(late_line_with_an_early_time, lambda: None, end))

    shown = [
        line.removeprefix("master-replica-0: ") for line in log_lines if line.startswith("master-replica-0")
    ]
    assert sorted(shown) == sorted([*(f"line {number}" for number in range(8)), "late", "newer", "last"])


def test_while_a_job_is_queued_its_log_is_not_asked_for(service: FakeService) -> None:
    service.add(make_job())
    clock = VirtualClock(*[lambda: None] * 4, lambda: service.move("digits_1", JobState.SUCCEEDED))

    run_trigger(clock)

    assert service.count("POST", "entries:list") == 1


def test_a_log_that_may_not_be_read_does_not_end_the_wait(
    service: FakeService, log_lines: Sequence[str]
) -> None:
    service.add(make_job(state=JobState.SUCCEEDED))
    service.faults = [None, error(403, "PERMISSION_DENIED", "no logs for you")]

    assert run_trigger(VirtualClock())["state"] == "SUCCEEDED"
    assert any("cannot be shown" in line for line in log_lines)


def test_every_state_change_is_logged_once_with_its_seconds(
    service: FakeService, log_lines: Sequence[str]
) -> None:
    service.add(make_job())
    steps = [JobState.PREPARING, JobState.PREPARING, JobState.RUNNING, JobState.SUCCEEDED]

    run_trigger(VirtualClock(*[lambda step=step: service.move("digits_1", step) for step in steps]))

    assert [line for line in log_lines if line.startswith("job ")] == [
        "job digits_1 is QUEUED",
        "job digits_1 is PREPARING, after 1.0 s QUEUED",
        "job digits_1 is RUNNING, after 2.0 s PREPARING",
        "job digits_1 is SUCCEEDED, after 1.0 s RUNNING",
    ]


@pytest.mark.parametrize(
    ("fate", "owner_of_job", "cancel_on_kill", "is_cancelled"),
    [
        (TaskFate.ENDED, "token", True, True),
        (TaskFate.ENDED, "token", False, False),
        (TaskFate.ENDED, "somebody-else", True, False),
        (TaskFate.REPEATED, "token", True, False),
        (TaskFate.DONE, "token", True, False),
        (TaskFate.LAST_DONE, "token", True, True),
        (TaskFate.LAST_DONE, "somebody-else", True, False),
        (TaskFate.UNKNOWN, "token", True, False),
    ],
)
def test_a_killed_task_cancels_only_its_own_job_and_only_when_it_was_ended(
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    fate: TaskFate,
    owner_of_job: str,
    cancel_on_kill: bool,
    is_cancelled: bool,
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels={"airflow-owner": owner_of_job}))
    monkeypatch.setattr(training_triggers, "fate_of", lambda _: fate)

    asyncio.run(JobTrigger(**{**ARGUMENTS, "cancel_on_kill": cancel_on_kill}).on_kill())

    assert (service.jobs["digits_1"].state is JobState.CANCELLING) is is_cancelled


@pytest.mark.parametrize(
    ("fate", "state"),
    [(TaskFate.LAST_DONE, JobState.RUNNING), (TaskFate.ENDED, JobState.CANCELLING)],
)
def test_a_detached_job_outlives_a_wait_that_was_marked_as_successful(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, fate: TaskFate, state: JobState
) -> None:
    service.add(
        make_job(state=JobState.RUNNING, labels={"airflow-owner": "token", "airflow-detached": "true"})
    )
    monkeypatch.setattr(training_triggers, "fate_of", lambda _: fate)

    asyncio.run(JobTrigger(**ARGUMENTS).on_kill())

    assert service.jobs["digits_1"].state is state


def test_a_kill_is_repeated_while_the_service_is_down(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels={"airflow-owner": "token"}))
    service.faults = [httpx.ConnectError("refused"), None, error(503, "UNAVAILABLE", "starting")]
    monkeypatch.setattr(training_triggers, "fate_of", lambda _: TaskFate.ENDED)
    trigger = JobTrigger(**ARGUMENTS)
    VirtualClock().run(trigger.on_kill())

    assert service.jobs["digits_1"].state is JobState.CANCELLING


def test_a_kill_that_airflow_cancels_is_carried_out_all_the_same(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels={"airflow-owner": "token"}))
    is_asked, may_answer = threading.Event(), threading.Event()

    def slow_fate(_: Any) -> TaskFate:
        is_asked.set()
        may_answer.wait(scaled(60))
        return TaskFate.ENDED

    monkeypatch.setattr(training_triggers, "fate_of", slow_fate)

    async def kill_and_cancel() -> None:
        kill = asyncio.create_task(JobTrigger(**ARGUMENTS).on_kill())
        await wait_until_async(is_asked.is_set, "the task's fate is asked for")
        kill.cancel()
        with pytest.raises(asyncio.CancelledError):
            await kill
        may_answer.set()
        await wait_until_async(lambda: not training_triggers._KILLS, "the kill is carried out")

    asyncio.run(kill_and_cancel())

    assert service.jobs["digits_1"].state is JobState.CANCELLING


def test_cleanup_leaves_the_job_alone(service: FakeService) -> None:
    service.add(make_job(state=JobState.RUNNING, labels={"airflow-owner": "token"}))

    asyncio.run(JobTrigger(**ARGUMENTS).cleanup())

    assert service.requests == []
