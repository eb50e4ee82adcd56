"""Waiting for tuning jobs and jobs with a limit of cost: deferred, poking, rescheduled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, TaskDeferred

from container_training.sensors import training as training_sensors
from container_training.sensors.training import TrainingJobSensor
from container_training.work.waiting.job_watch import JobWatch
from tests.support.fakes.fake_service import EPOCH, PROJECT, FakeService, make_job
from tests.support.fakes.tuning_jobs import make_trial, make_tuning_job
from tests.support.fakes.virtual_time import VirtualClock
from tests.unit.container_training.triggers.test_training import run_trigger
from training_api.dialects.ml_v1.cost import Meter, parse_prices
from training_api.states import JobState


@pytest.fixture(autouse=True)
def _prices(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, {"n1-standard-4": 0.1})


def set_prices(monkeypatch: pytest.MonkeyPatch, prices: object) -> None:
    extra = {"project": PROJECT, "prices": prices, "currency": "EUR"}
    connection = {"conn_type": "container_training", "host": "training.test", "port": 8470, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))


def running(*done: float) -> Any:
    """
    Return a tuning job with a finished trial per objective, and one that still runs.

    The last one began at the beginning.
    """
    trials = [make_trial(number, objective) for number, objective in enumerate(done, 1)]
    return make_tuning_job(*trials, make_trial(len(done) + 1, None, state="RUNNING", seconds=None))


def ended(state: JobState, *done: float, at: float = 0.0, **fields: Any) -> Any:
    end = EPOCH + timedelta(seconds=at)
    trials = [make_trial(number, objective) for number, objective in enumerate(done, 1)]
    trials.append(make_trial(len(done) + 1, None, state="CANCELLED", seconds=at))
    return make_tuning_job(*trials, state=state, end_time=end, **fields)


def trial_lines(log_lines: Sequence[str]) -> list[str]:
    return [line for line in log_lines if line.startswith("trials: ")]


def test_the_trigger_says_how_far_the_trials_are_once_a_change(
    service: FakeService, log_lines: Sequence[str]
) -> None:
    service.add(running())
    acts = [
        lambda: None,
        lambda: service.add(running(0.9)),
        lambda: None,
        lambda: service.add(running(0.9, 0.95)),
        lambda: service.add(ended(JobState.SUCCEEDED, 0.9, 0.95)),
    ]

    event = run_trigger(VirtualClock(*acts))

    assert [line.partition(";")[0] for line in trial_lines(log_lines)] == [
        "trials: 0 done, 1 running, 0 failed of 50",
        "trials: 1 done, 1 running, 0 failed of 50",
        "trials: 2 done, 1 running, 0 failed of 50",
        "trials: 2 done, 0 running, 0 failed, 1 cancelled of 50",
    ]
    assert "best accuracy 0.95 (trial 2); cost so far" in trial_lines(log_lines)[-1]
    assert event["study"]["best"]["trial_id"] == "2"
    assert event["study"]["trials"] == []


def test_a_look_at_a_tuning_job_is_one_request_beside_the_log(service: FakeService) -> None:
    service.add(running())
    acts = [lambda: None, lambda: service.add(ended(JobState.SUCCEEDED, 0.9))]

    run_trigger(VirtualClock(*acts), stream_logs=False)

    assert service.requests == [("GET", f"/v1/projects/{PROJECT}/jobs")] * 3


def test_the_lines_of_trials_say_whose_they_are(service: FakeService, log_lines: Sequence[str]) -> None:
    service.add(ended(JobState.SUCCEEDED, 0.9))
    service.write("digits_1", "epoch 1", trial_id="3")
    service.write("digits_1", {"message": "Trial 3 is running."}, task_name="service", trial_id="3")

    run_trigger(VirtualClock())

    assert "trial 3, master-replica-0: epoch 1" in log_lines
    assert "service: Trial 3 is running." in log_lines


def test_what_the_task_said_of_the_trials_the_trigger_does_not_repeat(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.add(running(0.9))
    with pytest.raises(TaskDeferred) as deferred:
        TrainingJobSensor(task_id="wait", job_id="digits_1").execute(context)

    watch = json.loads(json.dumps(deferred.value.trigger.serialize()[1]["watch"]))
    service.add(ended(JobState.SUCCEEDED, 0.9))
    run_trigger(VirtualClock(), watch=watch)

    assert len([line for line in trial_lines(log_lines) if "1 done, 1 running" in line]) == 1


def test_the_trigger_cancels_a_job_that_has_cost_what_it_may_and_waits_for_its_end(
    service: FakeService, log_lines: Sequence[str]
) -> None:
    service.add(running(0.9))
    clock = VirtualClock()

    def end_once_cancelled() -> None:
        if service.jobs["digits_1"].state is JobState.CANCELLING:
            service.add(ended(JobState.CANCELLED, 0.9, at=(clock.time - EPOCH).total_seconds()))

    clock.acts = [end_once_cancelled] * 60

    event = run_trigger(clock, max_cost=2.0, stream_logs=False)

    assert event["outcome"] == "COST_LIMIT"
    # Ten seconds of the first trial and ten of the second are 2 EUR.
    assert "cost 2.05 EUR, which is at or above max_cost 2 EUR, and was cancelled" in event["message"]
    assert event["message"].endswith("best accuracy 0.9 (trial 1)")
    assert event["cost"]["total"] == pytest.approx(2.05)
    assert service.count("POST", ":cancel") == 1
    assert any("is being cancelled: cost so far 2 EUR of max_cost 2 EUR" in line for line in log_lines)


def test_below_its_limit_a_job_is_left_alone(service: FakeService) -> None:
    service.add(running(0.9))
    clock = VirtualClock(*[lambda: None] * 8, lambda: service.add(ended(JobState.SUCCEEDED, 0.9, at=9)))

    event = run_trigger(clock, max_cost=2.0)

    assert (event["outcome"], event["state"]) == ("REACHED", "SUCCEEDED")
    assert service.count("POST", ":cancel") == 0


@pytest.mark.parametrize("state", [JobState.CANCELLING, JobState.CANCELLED])
def test_after_a_restart_of_the_triggerer_the_cost_says_why_the_job_was_cancelled(
    service: FakeService, state: JobState
) -> None:
    service.add(ended(state, 0.9, at=10).model_copy(update={"state": state}))
    clock = VirtualClock(lambda: service.move("digits_1", JobState.CANCELLED, "by a user"))

    event = run_trigger(clock, max_cost=2.0)

    assert event["outcome"] == "COST_LIMIT"
    assert service.count("POST", ":cancel") == 0


def test_a_job_that_a_person_cancelled_below_the_limit_is_not_blamed_on_it(service: FakeService) -> None:
    service.add(ended(JobState.CANCELLED, 0.9, at=1, error_message="The job was cancelled by a user."))

    event = run_trigger(VirtualClock(), max_cost=2.0)

    assert (event["outcome"], event["message"]) == ("REACHED", "The job was cancelled by a user.")


def test_a_job_that_ended_well_above_its_limit_is_a_success(service: FakeService) -> None:
    service.add(ended(JobState.SUCCEEDED, 0.9, at=60))

    assert run_trigger(VirtualClock(), max_cost=2.0)["outcome"] == "REACHED"


def test_a_cancellation_that_got_no_answer_is_sent_again(service: FakeService) -> None:
    service.add(running(0.9))
    clock = VirtualClock()
    clock.start += timedelta(seconds=50)

    def lose_the_next_cancellation() -> None:
        service.faults = [None, httpx.ReadError("reset")]

    lose_the_next_cancellation()
    clock.acts = [lambda: None, lambda: service.move("digits_1", JobState.CANCELLED)]

    event = run_trigger(clock, max_cost=2.0, stream_logs=False)

    assert service.count("POST", ":cancel") == 2
    assert event["outcome"] == "COST_LIMIT"


def test_the_cost_of_any_job_is_limited(service: FakeService, log_lines: Sequence[str]) -> None:
    service.add(make_job(state=JobState.RUNNING, start_time=EPOCH))  # BASIC: an n1-standard-4
    clock = VirtualClock(*[lambda: None] * 10, lambda: service.move("digits_1", JobState.CANCELLED))

    event = run_trigger(clock, max_cost=1.0, stream_logs=False)

    assert event["outcome"] == "COST_LIMIT"
    shown = [line for line in log_lines if line.startswith("cost so far")]
    # A line at each tenth of the limit, not at each look, and one at the end.
    assert shown[0] == "cost so far 0.1 EUR of max_cost 1 EUR"
    assert len(shown) == len(set(shown)) <= 12


def test_without_prices_a_limit_ends_the_trigger_with_the_setting(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, {"n1-standard-8": 1})
    service.add(running(0.9))

    event = run_trigger(VirtualClock(), max_cost=2.0)

    assert (event["outcome"], event["error"]) == ("REFUSED", "InvalidPrice")
    assert (
        "extra.prices of connection 'training_default' has no price for 'n1-standard-4'" in event["message"]
    )


def test_without_prices_and_without_a_limit_nothing_is_said_of_money(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, log_lines: Sequence[str]
) -> None:
    set_prices(monkeypatch, "")
    service.add(ended(JobState.SUCCEEDED, 0.9))

    event = run_trigger(VirtualClock())

    assert "cost" not in event
    assert not [line for line in log_lines if "cost" in line]


def test_waits_for_an_earlier_state_do_not_look_at_trials(
    service: FakeService, log_lines: Sequence[str]
) -> None:
    service.add(running(0.9))

    event = run_trigger(VirtualClock(), until="left_preparing")

    assert "study" not in event
    assert not trial_lines(log_lines)


def test_the_deferred_task_carries_its_limit(service: FakeService, context: Any) -> None:
    service.add(running())

    with pytest.raises(TaskDeferred) as deferred:
        TrainingJobSensor(task_id="wait", job_id="digits_1", max_cost="2.5").execute(context)

    assert deferred.value.trigger.serialize()[1]["max_cost"] == 2.5


def test_the_task_fails_with_limit_and_cost_and_keeps_the_best_trial(
    service: FakeService, context: Any
) -> None:
    watch = JobWatch("digits_1", meter=Meter(prices=parse_prices({"n1-standard-4": 0.1}, "x"), max_cost=2.0))
    job = ended(JobState.CANCELLED, 0.9, at=15)
    list(watch.see(job, EPOCH))
    event = watch.reached(job)

    with pytest.raises(
        AirflowFailException, match=r"^CostLimitReached: job 'digits_1' cost 2\.5.* max_cost 2,"
    ):
        TrainingJobSensor(task_id="wait", job_id="digits_1").execute_complete(context, event)

    pushed = {call.kwargs["key"]: call.kwargs["value"] for call in context["ti"].xcom_push.call_args_list}
    assert pushed["study"]["best"]["hyperparameters"]["lr"] == "0.01"
    assert pushed["cost"]["total"] == 2.5


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
def test_a_task_that_pokes_keeps_the_limit_too(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    clock = VirtualClock()
    monkeypatch.setattr(TrainingJobSensor, "_now", lambda _: clock.time)
    monkeypatch.setattr(training_sensors.BaseSensorOperator, "_get_next_poke_interval", lambda *_: 0.0)
    service.add(running(0.9))

    def look() -> Any:
        sensor = TrainingJobSensor(
            task_id="wait", job_id="digits_1", max_cost=2.0, deferrable=False, mode=mode, stream_logs=False
        )
        return sensor.execute(context) if mode == "reschedule" else sensor.poke(context)

    for seconds, cancels in ((0, 0), (9, 0), (10, 1), (11, 1)):
        clock.seconds = seconds
        if mode == "reschedule":
            with pytest.raises(AirflowRescheduleException):
                look()
        else:
            assert not look().is_done
        assert service.count("POST", ":cancel") == cancels
    service.add(ended(JobState.CANCELLED, 0.9, at=11))
    with pytest.raises(AirflowFailException, match=r"CostLimitReached: .* cost 2\.1 EUR"):
        look()


def test_a_limit_without_a_price_fails_the_task_at_once(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, {})
    service.add(running())

    with pytest.raises(
        AirflowFailException, match=r"InvalidPrice: extra\.prices of connection 'training_default'"
    ):
        TrainingJobSensor(task_id="wait", job_id="digits_1", max_cost=1).execute(context)
