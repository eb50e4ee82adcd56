"""The wait as a task that polls by itself, and that Airflow reschedules."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from container_training.runtime import killing, supervision
from container_training.runtime.killing import TaskFate
from tests.support.fakes.fake_service import FakeService, error, make_job
from tests.unit.container_training.sensors.conftest import OWN_LABELS, make_sensor
from training_api.states import JobState


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
        monkeypatch.setattr(supervision.os, "getppid", lambda: 0)

    naps.append(lose_the_worker)
    with pytest.raises(AirflowFailException, match="the next try waits for job 'digits_1'"):
        make_sensor(deferrable=False).execute(context)

    assert service.jobs["digits_1"].state is JobState.RUNNING


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
