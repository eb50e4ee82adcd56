"""The wait as a task: deferred, poking and rescheduled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.sdk.bases.operator import TriggerFailureReason
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)

from container_training.runtime import killing, supervision
from container_training.runtime.killing import TaskFate
from container_training.sensors.training import TrainingJobSensor
from container_training.work.waiting.job_watch import Until, WaitEvent
from tests.support.fakes.fake_service import FakeService, error, make_job
from training_api.errors import JobFailed
from training_api.states import JobState

OWN_LABELS = {"airflow-dag": "train_digits", "airflow-run": "manual__1", "airflow-owner": "token"}
ENDINGS = [
    (JobState.FAILED, "The replica master 0 exited with a non-zero status of 3."),
    (JobState.FAILED, "The replica master 0 ran out-of-memory and exited with a non-zero status of 137."),
    (JobState.CANCELLED, "The job was cancelled by a user."),
]


def make_sensor(**changes: Any) -> TrainingJobSensor:
    return TrainingJobSensor(**{"task_id": "wait", "job_id": "digits_1", **changes})


def make_event(**changes: Any) -> WaitEvent:
    event = {"outcome": "REACHED", "job_id": "digits_1", "state": "SUCCEEDED", "message": ""}
    return {**event, **changes}  # type: ignore[typeddict-item,return-value]


def test_a_wait_has_two_retries_unless_its_author_says_otherwise() -> None:
    sensor = make_sensor()

    assert (sensor.retries, sensor.retry_delay) == (2, timedelta(seconds=10))
    assert make_sensor(retries=0).retries == 0
    assert make_sensor(default_args={"retries": 5}).retries == 5
    assert make_sensor(retry_delay=timedelta(seconds=1)).retry_delay == timedelta(seconds=1)


def test_the_retries_of_the_deployment_apply_to_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TASK_RETRIES", "4")

    assert make_sensor().retry_delay == timedelta(seconds=300)


def test_the_deployment_says_whether_a_wait_is_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE")
    by_airflow = make_sensor()
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")

    assert (by_airflow.deferrable, by_airflow.poke_interval) == (False, 1.0)
    assert (make_sensor().deferrable, make_sensor(deferrable=False).deferrable) == (True, False)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return acts, one of which happens at each pause of a poking sensor instead of sleeping."""
    acts: list[Any] = []
    monkeypatch.setattr("airflow.sdk.bases.sensor.time.sleep", lambda _: acts.pop(0)())
    return acts


def test_a_job_that_is_there_already_costs_no_deferral(service: FakeService, context: Any) -> None:
    service.add(make_job(state=JobState.RUNNING))

    assert make_sensor(until="left_queued").execute(context) == "RUNNING"


def test_a_job_that_is_there_within_seconds_costs_no_deferral(
    service: FakeService, context: Any, naps: list[Any]
) -> None:
    service.add(make_job(state=JobState.QUEUED))
    naps += [lambda: None, lambda: service.move("digits_1", JobState.PREPARING), pytest.fail]

    assert make_sensor(until="left_queued").execute(context) == "PREPARING"


def test_a_job_that_takes_longer_is_deferred_after_three_seconds(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("container_training.sensors.training._PAUSE_BEFORE_DEFERRING", 0.5)
    monkeypatch.setattr("container_training.sensors.training.time.sleep", pauses.append)
    service.add(make_job(state=JobState.QUEUED))

    with pytest.raises(TaskDeferred):
        make_sensor(until="left_queued").execute(context)

    assert sum(pauses) == 3.0


def test_a_wait_for_the_end_is_deferred_at_once(service: FakeService, context: Any, naps: list[Any]) -> None:
    service.add(make_job(state=JobState.RUNNING))

    with pytest.raises(TaskDeferred):
        make_sensor().execute(context)


def test_a_service_that_does_not_answer_is_left_to_the_triggerer(
    service: FakeService, context: Any, naps: list[Any]
) -> None:
    service.faults = [httpx.ConnectError("refused")] * 9

    with pytest.raises(TaskDeferred):
        make_sensor().execute(context)

    assert len(service.requests) == 1


def test_a_wait_is_deferred_to_a_trigger_with_a_deadline(service: FakeService, context: Any) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=OWN_LABELS))

    with pytest.raises(TaskDeferred) as deferred:
        make_sensor(timeout=60).execute(context)

    _, arguments = deferred.value.trigger.serialize()
    assert (arguments["until"], arguments["owner"], arguments["stream_logs"]) == ("finished", "token", True)
    assert datetime.fromisoformat(arguments["deadline_at"]).tzinfo is not None
    assert arguments["watch"]["state"] == "RUNNING"
    assert deferred.value.timeout > timedelta(seconds=60)


def test_what_the_task_has_shown_the_trigger_does_not_show_again(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    service.write("digits_1", "epoch 1")

    with pytest.raises(TaskDeferred) as deferred:
        make_sensor().execute(context)

    assert "master-replica-0: epoch 1" in log_lines
    assert deferred.value.trigger.watch["log_cursor"] == service.entries[0]["receiveTimestamp"]


def test_a_service_that_is_down_at_first_still_lets_the_wait_begin(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.faults = [httpx.ConnectError("refused")]

    with pytest.raises(TaskDeferred):
        make_sensor().execute(context)

    assert any("still waiting, until" in line for line in log_lines)


def test_a_job_of_another_dag_run_has_no_owner_here(service: FakeService, context: Any) -> None:
    service.add(make_job(labels={**OWN_LABELS, "airflow-run": "manual__2"}))

    with pytest.raises(TaskDeferred) as deferred:
        make_sensor().execute(context)

    assert deferred.value.trigger.owner == ""


def test_an_unknown_job_fails_the_task_at_once(service: FakeService, context: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"JobNotFound: .*digits_1"):
        make_sensor().execute(context)


@pytest.mark.parametrize("until", list(Until))
@pytest.mark.parametrize(("state", "reason"), ENDINGS)
def test_a_job_that_ended_badly_fails_every_wait_with_the_services_own_words(
    service: FakeService, context: Any, until: Until, state: JobState, reason: str
) -> None:
    service.add(make_job(state=state, error_message=reason))

    with pytest.raises(AirflowFailException) as failed:
        make_sensor(until=until).execute(context)

    assert str(failed.value) == f"JobFailed: job 'digits_1' ended as {state}: {reason}"
    assert isinstance(failed.value.__cause__, JobFailed)


@pytest.mark.parametrize(("state", "reason"), ENDINGS)
def test_a_bad_end_that_the_trigger_saw_fails_the_task_too(
    service: FakeService, context: Any, state: JobState, reason: str
) -> None:
    with pytest.raises(AirflowFailException, match=f"ended as {state}") as failed:
        make_sensor().execute_complete(context, make_event(state=state.value, message=reason))

    assert reason in str(failed.value)


def test_the_triggers_good_end_gives_the_state(context: Any) -> None:
    assert make_sensor().execute_complete(context, make_event()) == "SUCCEEDED"


def test_a_timeout_names_the_limit_the_state_and_how_to_cancel(service: FakeService, context: Any) -> None:
    event = make_event(outcome="TIMED_OUT", state="RUNNING")

    with pytest.raises(AirflowSensorTimeout) as timeout:
        make_sensor(timeout=90).execute_complete(context, event)

    assert str(timeout.value).startswith("PollTimeout: job 'digits_1' was not 'finished' within timeout=90 s")
    assert "RUNNING" in str(timeout.value)
    assert "gcloud ai-platform jobs cancel digits_1 --project demo" in str(timeout.value)


def test_a_refusal_names_the_error_and_the_job(context: Any) -> None:
    event = make_event(outcome="REFUSED", state=None, message="permission denied", error="AccessDenied")

    with pytest.raises(AirflowFailException, match=r"AccessDenied: permission denied; job 'digits_1'"):
        make_sensor().execute_complete(context, event)


def test_poking_waits_through_an_outage_and_shows_every_line_once(
    service: FakeService, context: Any, naps: list[Any], log_lines: Sequence[str]
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    service.write("digits_1", "epoch 1")

    def go_down() -> None:
        service.faults = [httpx.ConnectError("refused"), error(503, "UNAVAILABLE", "starting")]
        service.write("digits_1", "epoch 2")

    def end() -> None:
        service.write("digits_1", "epoch 3", severity="WARNING")
        service.move("digits_1", JobState.SUCCEEDED)

    naps.extend([go_down, lambda: None, lambda: None, end])
    state = make_sensor(deferrable=False).execute(context)

    assert state == "SUCCEEDED"
    shown = [line for line in log_lines if "epoch" in line]
    assert shown == [f"master-replica-0: epoch {number}" for number in (1, 2, 3)]
    assert len([line for line in log_lines if "still waiting" in line]) == 1


@pytest.mark.parametrize(
    ("timeout", "execution_timeout", "kind"),
    [
        (90, timedelta(seconds=30), AirflowTaskTimeout),
        (20, timedelta(seconds=30), AirflowSensorTimeout),
        (90, None, AirflowSensorTimeout),
    ],
)
def test_a_triggerer_that_comes_too_late_makes_no_other_limit_of_it(
    service: FakeService,
    context: Any,
    timeout: float,
    execution_timeout: timedelta | None,
    kind: type[BaseException],
) -> None:
    sensor = make_sensor(timeout=timeout, execution_timeout=execution_timeout)
    given_up = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}

    with pytest.raises(kind):
        sensor.resume_execution("__fail__", given_up, context)


def test_a_shorter_execution_timeout_limits_the_wait_and_leaves_the_task_to_its_retries(
    service: FakeService, context: Any
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    sensor = make_sensor(timeout=90, execution_timeout=timedelta(seconds=30))

    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    deadline = datetime.fromisoformat(deferred.value.trigger.deadline_at)
    assert timedelta(seconds=25) < deadline - datetime.now(deadline.tzinfo) <= timedelta(seconds=30)

    event = make_event(outcome="TIMED_OUT", state="RUNNING")
    with pytest.raises(AirflowTaskTimeout, match="within timeout=30 s"):
        sensor.execute_complete(context, event)
    with pytest.raises(AirflowSensorTimeout):
        make_sensor(timeout=20, execution_timeout=timedelta(seconds=30)).execute_complete(context, event)


def test_poking_gives_up_at_its_timeout_with_the_same_message(
    service: FakeService, context: Any, naps: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    times = iter([0.0, 0.5, 99.0, 99.0])
    monkeypatch.setattr("airflow.sdk.bases.sensor.time.monotonic", lambda: next(times))
    naps.append(lambda: None)

    with pytest.raises(
        AirflowSensorTimeout, match=r"^PollTimeout: job 'digits_1' .* gcloud ai-platform jobs cancel"
    ):
        make_sensor(deferrable=False, timeout=60).execute(context)


def test_a_soft_failing_sensor_is_skipped_when_the_job_failed(service: FakeService, context: Any) -> None:
    service.add(make_job(state=JobState.FAILED, error_message="exit 3"))

    with pytest.raises(AirflowSkipException):
        make_sensor(deferrable=False, soft_fail=True).execute(context)


def test_a_rescheduled_sensor_remembers_what_it_has_shown(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    service.write("digits_1", "epoch 1")
    with pytest.raises(AirflowRescheduleException):
        make_sensor(deferrable=False, mode="reschedule").execute(context)

    service.write("digits_1", "epoch 2")
    service.move("digits_1", JobState.SUCCEEDED)
    state = make_sensor(deferrable=False, mode="reschedule").execute(context)

    assert state == "SUCCEEDED"
    assert [line for line in log_lines if "epoch" in line] == [
        "master-replica-0: epoch 1",
        "master-replica-0: epoch 2",
    ]
    assert len([line for line in log_lines if line.startswith("job digits_1 is RUNNING")]) == 1


def test_a_new_attempt_of_a_rescheduled_sensor_shows_the_log_from_the_beginning(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    service.write("digits_1", "epoch 1")
    for context["ti"].try_number in (1, 2):
        with pytest.raises(AirflowRescheduleException):
            make_sensor(deferrable=False, mode="reschedule").execute(context)

    assert len([line for line in log_lines if "epoch 1" in line]) == 2


def test_the_default_interval_spares_the_scheduler_in_reschedule_mode() -> None:
    assert make_sensor().poke_interval == 0.5
    assert make_sensor(deferrable=False).poke_interval == 1.0
    assert make_sensor(deferrable=False, mode="reschedule").poke_interval == 15.0
    assert make_sensor(poke_interval=3).poke_interval == 3.0


@pytest.mark.parametrize(
    ("fate", "labels", "is_cancelled"),
    [
        (TaskFate.ENDED, OWN_LABELS, True),
        (TaskFate.REPEATED, OWN_LABELS, False),
        (TaskFate.DONE, OWN_LABELS, False),
        (TaskFate.LAST_DONE, OWN_LABELS, True),
        (TaskFate.LAST_DONE, OWN_LABELS | {"airflow-detached": "true"}, False),
        (TaskFate.UNKNOWN, OWN_LABELS, False),
        (TaskFate.ENDED, {}, False),
    ],
)
def test_a_killed_poking_task_cancels_only_its_own_job_and_only_when_it_was_ended(
    service: FakeService,
    context: Any,
    naps: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    fate: TaskFate,
    labels: dict[str, str],
    is_cancelled: bool,
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=labels))
    monkeypatch.setattr(killing, "fate_of", lambda _: fate)
    sensor = make_sensor(deferrable=False)

    def kill() -> None:
        sensor.on_kill()
        raise SystemExit

    naps.append(kill)
    with pytest.raises(SystemExit):
        sensor.execute(context)

    assert (service.jobs["digits_1"].state is JobState.CANCELLING) is is_cancelled


def test_a_poking_task_without_its_worker_leaves_the_wait_to_the_next_try(
    service: FakeService, context: Any, naps: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=OWN_LABELS))
    monkeypatch.setattr(supervision, "has_supervisor", lambda: True)

    def lose_the_worker() -> None:
        monkeypatch.setattr(supervision.os, "getppid", lambda: 1)

    naps.append(lose_the_worker)
    with pytest.raises(AirflowFailException, match="the next try waits for job 'digits_1'"):
        make_sensor(deferrable=False).execute(context)

    assert service.jobs["digits_1"].state is JobState.RUNNING


@pytest.mark.parametrize("deferrable", [True, False])
@pytest.mark.parametrize("job_id", [None, "None", ""])
def test_a_wait_for_no_job_fails_for_good_and_says_what_to_clear(
    service: FakeService, context: Any, job_id: Any, deferrable: bool
) -> None:
    with pytest.raises(AirflowFailException, match=r"InvalidArgument: job_id must be .* clear that task"):
        make_sensor(job_id=job_id, deferrable=deferrable).execute(context)


def test_an_unknown_wait_is_refused_when_the_dag_is_read() -> None:
    with pytest.raises(ValueError, match="left_nowhere"):
        make_sensor(until="left_nowhere")


def test_a_missing_store_does_not_stop_a_rescheduled_sensor(service: FakeService) -> None:
    service.add(make_job(state=JobState.RUNNING))
    ti = SimpleNamespace(
        dag_id="d",
        run_id="r",
        task_id="wait",
        map_index=-1,
        try_number=1,
        get_first_reschedule_date=lambda _: None,
    )

    with pytest.raises(AirflowRescheduleException):
        make_sensor(deferrable=False, mode="reschedule").execute({"ti": ti})  # type: ignore[arg-type]
