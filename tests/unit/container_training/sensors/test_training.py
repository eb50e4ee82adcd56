"""The wait as a task, deferred."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from airflow.sdk import DAG, BaseOperator, TaskGroup
from airflow.sdk.bases.operator import TriggerFailureReason
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowTaskTimeout,
    TaskDeferred,
)

from container_training.hooks.training import TrainingHook
from container_training.sensors.training import TrainingJobSensor
from container_training.work.waiting.job_watch import Until, WaitEvent
from tests.support.fakes.fake_service import FakeService, make_job
from tests.unit.container_training.sensors.conftest import OWN_LABELS, make_sensor
from training_api.errors import JobFailed
from training_api.states import JobState

ENDINGS = [
    (JobState.FAILED, "The replica master 0 exited with a non-zero status of 3."),
    (JobState.FAILED, "The replica master 0 ran out-of-memory and exited with a non-zero status of 137."),
    (JobState.CANCELLED, "The job was cancelled by a user."),
]


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


def retries_by_place(*, is_mapped: bool, **said: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return retries and delay of a wait, as the scheduler reads them and as a worker has them."""
    with (
        DAG("d", schedule=None, default_args=said.get("dag", {})),
        TaskGroup("g", default_args=said.get("group", {})),
    ):
        arguments = {"default_args": said.get("default_args", {}), **said.get("argument", {})}
        if not is_mapped:
            wait = make_sensor(**arguments)
            return [(wait.retries, wait.retry_delay)] * 2
        mapped = TrainingJobSensor.partial(task_id="wait", **arguments).expand(job_id=["digits_1"])
    worker = mapped.unmap({"job_id": "digits_1"})
    return [(each.retries, each.retry_delay) for each in (mapped, worker)]


@pytest.mark.parametrize("of_deployment", ["", "4"])
@pytest.mark.parametrize(
    "said",
    [
        {"retries": 7},
        {"retries": 0},
        {"retry_delay": timedelta(seconds=9)},
        {"owner": "a"},
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["dag", "group", "default_args", "argument"])
def test_a_mapped_wait_has_the_retries_of_one_that_is_not_mapped(
    monkeypatch: pytest.MonkeyPatch, place: str, said: dict[str, Any], of_deployment: str
) -> None:
    if of_deployment:
        monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TASK_RETRIES", of_deployment)
        # Airflow reads it once, when it is imported.
        default = inspect.unwrap(BaseOperator.__init__).__kwdefaults__
        monkeypatch.setitem(default, "retries", int(of_deployment))

    expected = retries_by_place(is_mapped=False, **{place: said})

    assert retries_by_place(is_mapped=True, **{place: said}) == expected
    assert expected[0][0] is not None


def test_the_deployment_says_whether_a_wait_is_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE")
    by_airflow = make_sensor()
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")

    assert (by_airflow.deferrable, by_airflow.poke_interval) == (False, 1.0)
    assert (make_sensor().deferrable, make_sensor(deferrable=False).deferrable) == (True, False)


def test_a_job_that_is_there_already_costs_no_deferral(service: FakeService, context: Any) -> None:
    service.add(make_job(state=JobState.RUNNING))

    assert make_sensor(until="left_queued").execute(context) == "RUNNING"


def test_a_job_that_is_there_within_seconds_costs_no_deferral(
    service: FakeService, context: Any, naps: list[Any]
) -> None:
    service.add(make_job(state=JobState.QUEUED))
    naps += [lambda: None, lambda: service.move("digits_1", JobState.PREPARING), pytest.fail]

    assert make_sensor(until="left_queued").execute(context) == "PREPARING"


def test_a_short_job_ends_without_a_deferral(service: FakeService, context: Any, naps: list[Any]) -> None:
    service.add(make_job(state=JobState.RUNNING))
    naps += [lambda: None, lambda: service.move("digits_1", JobState.SUCCEEDED), pytest.fail]

    assert make_sensor().execute(context) == "SUCCEEDED"


@pytest.mark.parametrize("until", ["left_queued", "finished"])
def test_a_job_that_takes_longer_is_deferred_after_five_seconds(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("container_training.sensors.training._PAUSE_BEFORE_DEFERRING", 0.5)
    monkeypatch.setattr("container_training.sensors.training.time.sleep", pauses.append)
    service.add(make_job(state=JobState.QUEUED))

    with pytest.raises(TaskDeferred):
        make_sensor(until=until).execute(context)

    assert sum(pauses) == 5.0


@pytest.mark.parametrize(("min_poll_seconds", "looks", "waited"), [(2, 3, 4.0), (5, 2, 5.0), (60, 1, 0.0)])
def test_a_wait_keeps_to_the_pauses_that_its_connection_wants(
    service: FakeService,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
    min_poll_seconds: float,
    looks: int,
    waited: float,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("container_training.sensors.training._PAUSE_BEFORE_DEFERRING", 0.5)
    monkeypatch.setattr("container_training.sensors.training.time.sleep", pauses.append)
    monkeypatch.setattr(TrainingHook, "min_poll_seconds", min_poll_seconds)
    service.add(make_job(state=JobState.QUEUED))

    with pytest.raises(TaskDeferred):
        make_sensor().execute(context)
    assert (service.count("GET", "/jobs/digits_1"), sum(pauses)) == (looks, waited)

    poking = make_sensor(deferrable=False)
    asked = service.count("GET", "/jobs/digits_1")
    for _ in range(3):
        assert not poking.poke(context).is_done
    assert service.count("GET", "/jobs/digits_1") == asked + 1


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


def test_a_timeout_of_vertex_ai_names_the_command_for_the_job_there(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"project": "demo", "regions": ["us-central1", "europe-west4"]}
    monkeypatch.setenv(
        "AIRFLOW_CONN_IN_THE_CLOUD", json.dumps({"conn_type": "vertex_training", "extra": extra})
    )
    sensor = make_sensor(training_conn_id="in_the_cloud")
    event = make_event(
        outcome="TIMED_OUT", state="RUNNING", job_id="42", region="europe-west4", is_study=True
    )

    with pytest.raises(AirflowSensorTimeout) as timeout:
        sensor.execute_complete(context, event)

    command = "gcloud ai hp-tuning-jobs cancel 42 --region europe-west4 --project demo"
    assert str(timeout.value).endswith(f"to cancel it: {command}")
    assert sensor.report is not None
    assert "/europe-west4/training/42?project=demo" in sensor.report.page_url


def test_a_job_with_an_id_of_the_services_own_is_waited_for_by_that(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.jobs["digits_by_name"] = make_job(state=JobState.RUNNING)
    service.write("digits_1", "epoch 1/1")
    sensor = make_sensor(job_id="digits_by_name")

    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)

    assert deferred.value.trigger.job_id == "digits_1"
    assert any("epoch 1/1" in line for line in log_lines)


def test_a_refusal_names_the_error_and_the_job(context: Any) -> None:
    event = make_event(outcome="REFUSED", state=None, message="permission denied", error="AccessDenied")

    with pytest.raises(AirflowFailException, match=r"AccessDenied: permission denied; job 'digits_1'"):
        make_sensor().execute_complete(context, event)


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

    before = datetime.now(UTC)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    deadline, limit = datetime.fromisoformat(deferred.value.trigger.deadline_at), timedelta(seconds=30)
    assert before + limit <= deadline <= datetime.now(UTC) + limit

    event = make_event(outcome="TIMED_OUT", state="RUNNING")
    with pytest.raises(AirflowTaskTimeout, match="within timeout=30 s"):
        sensor.execute_complete(context, event)
    with pytest.raises(AirflowSensorTimeout):
        make_sensor(timeout=20, execution_timeout=timedelta(seconds=30)).execute_complete(context, event)


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
