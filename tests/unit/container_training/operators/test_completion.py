"""One task that submits a job, waits for it and collects its results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.bases.operator import ExecutorSafeguard, TriggerFailureReason
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowTaskTimeout,
    TaskDeferred,
)

from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime import killing
from container_training.runtime.killing import TaskFate
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import EPOCH, FakeService
from tests.support.fakes.fake_vertex import FakeVertex
from tests.support.fakes.submissions import make_operator
from training_api.states import JobState

#: Of Vertex AI.
STOCKOUT = "Resources are insufficient in region: us-central1. Try a different region."


@pytest.fixture(autouse=True)
def outputs(context: Any) -> dict[str, Any]:
    """Return what the task pushes, which it can pull again."""
    pushed: dict[str, Any] = {}
    context["ti"].xcom_push = lambda key, value: pushed.__setitem__(key, value)
    context["ti"].xcom_pull = lambda *, key, **_: pushed.get(key)
    return pushed


def one_task(**changes: Any) -> SubmitTrainingJobOperator:
    return make_operator(wait_for_completion=True, deferrable=True, **changes)


def defer(context: Any, **changes: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as deferred:
        one_task(**changes).execute(context)
    return deferred.value


def finish(service: FakeService, bucket: FakeBucket) -> None:
    """End the only job well."""
    (job_id,) = service.jobs
    ended = {"state": JobState.SUCCEEDED, "end_time": EPOCH + timedelta(seconds=20)}
    service.jobs[job_id] = service.jobs[job_id].model_copy(update={"create_time": EPOCH, **ended})
    bucket.objects[f"jobs/{job_id}/metrics.json"] = b'{"accuracy": 0.97}'


def resume(operator: SubmitTrainingJobOperator, context: Any, **event: Any) -> Any:
    event = {"outcome": "REACHED", "state": "SUCCEEDED", "message": "", "job_id": "", **event}
    return operator.resume_execution("execute_complete", {"event": event}, context)


def test_the_task_is_deferred_to_the_trigger_of_the_sensor(
    service: FakeService, context: Any, outputs: dict[str, Any]
) -> None:
    deferred = defer(context, wait_timeout=60)

    (job,) = service.jobs.values()
    arguments = deferred.trigger.serialize()[1]
    assert (arguments["job_id"], arguments["until"]) == (job.job_id, "finished")
    assert arguments["owner"] == (job.labels or {})["airflow-owner"]
    assert deferred.timeout == timedelta(seconds=180)
    assert outputs["job_id"] == outputs["job"]["jobId"] == job.job_id


def test_the_result_is_that_of_the_collecting_operator(
    service: FakeService, bucket: FakeBucket, context: Any, outputs: dict[str, Any]
) -> None:
    defer(context)
    finish(service, bucket)
    model, operator = Asset("model"), one_task()
    operator.outlets = [model]
    context["outlet_events"] = {model: SimpleNamespace(extra={})}

    result = resume(operator, context, job_id=outputs["job_id"])

    assert (result["job_id"], result["metrics"]) == (outputs["job_id"], {"accuracy": 0.97})
    assert context["outlet_events"][model].extra["metrics"] == {"accuracy": 0.97}
    assert operator.report is not None
    assert operator.report.state == "SUCCEEDED"
    assert list(outputs["uris"]) == ["metrics.json"]


def test_a_next_try_waits_for_the_same_job(service: FakeService, context: Any) -> None:
    first = defer(context)
    service.move(next(iter(service.jobs)), JobState.RUNNING)

    second = defer(context)

    assert first.trigger.job_id == second.trigger.job_id
    assert len(service.jobs) == 1


def test_a_job_that_has_ended_meanwhile_costs_no_deferral(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    defer(context)
    finish(service, bucket)

    assert one_task().execute(context)["metrics"] == {"accuracy": 0.97}
    assert len(service.jobs) == 1


def test_a_failed_job_is_final_and_the_cleared_task_submits_the_next_attempt(
    service: FakeService, context: Any, outputs: dict[str, Any]
) -> None:
    defer(context)
    failed, operator = outputs["job_id"], one_task()
    service.move(failed, JobState.FAILED)

    with pytest.raises(AirflowFailException, match=r"JobFailed: .* out of memory"):
        resume(operator, context, job_id=failed, state="FAILED", message="out of memory")
    defer(context)

    assert operator.report is not None
    assert operator.report.reason == "out of memory"
    assert list(service.jobs) == [failed, f"{failed[:-1]}2"]


def test_a_job_that_vertex_ai_could_not_run_is_left_to_the_retries_which_submit_the_next_attempt(
    vertex: FakeVertex, context: Any, outputs: dict[str, Any]
) -> None:
    defer(context)
    failed, operator = outputs["job_id"], one_task()
    vertex.move(failed, "FAILED")

    with pytest.raises(AirflowException, match="a retry submits the next attempt") as raised:
        resume(operator, context, job_id=failed, state="FAILED", message=STOCKOUT)
    defer(context)

    assert not isinstance(raised.value, AirflowFailException)
    assert vertex.states() == {failed: "FAILED", outputs["job_id"]: "PENDING"}


def test_words_of_vertex_ai_are_nothing_to_another_service(
    service: FakeService, context: Any, outputs: dict[str, Any]
) -> None:
    defer(context)

    with pytest.raises(AirflowFailException):
        resume(one_task(), context, job_id=outputs["job_id"], state="FAILED", message=STOCKOUT)


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, AirflowSensorTimeout), (timedelta(seconds=9), AirflowTaskTimeout)]
)
def test_a_triggerer_that_never_answers_ends_the_try_as_it_ends_a_sensors(
    service: FakeService, context: Any, limit: timedelta | None, expected: type[Exception]
) -> None:
    defer(context)

    with pytest.raises(expected):
        one_task(execution_timeout=limit).resume_execution(
            "__fail__", {"error": TriggerFailureReason.TRIGGER_TIMEOUT}, context
        )


def test_without_deferral_the_worker_waits(
    service: FakeService,
    bucket: FakeBucket,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
    log_lines: Sequence[str],
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        finish(service, bucket)

    monkeypatch.setattr("airflow.sdk.bases.sensor.time.sleep", pause)
    monkeypatch.setattr(ExecutorSafeguard, "test_mode", False)
    operator = one_task()
    operator.deferrable = False

    result = operator.execute(
        context, **{f"{type(operator).__name__}__sentinel": ExecutorSafeguard.sentinel_value}
    )

    assert (result["metrics"], pauses) == ({"accuracy": 0.97}, [1.0])
    assert not [line for line in log_lines if "outside of the Task Runner" in line]


@pytest.mark.parametrize(
    ("fate", "is_cancelled"),
    [(TaskFate.ENDED, True), (TaskFate.LAST_DONE, True), (TaskFate.DONE, False), (TaskFate.RESTARTED, False)],
)
def test_a_killed_wait_does_what_a_sensor_does(
    service: FakeService,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
    fate: TaskFate,
    is_cancelled: bool,
) -> None:
    monkeypatch.setattr(killing, "fate_of", lambda _: fate)
    monkeypatch.setattr("airflow.sdk.bases.sensor.time.sleep", _stop)
    operator = one_task()
    operator.deferrable = False
    with pytest.raises(_StoppedError):
        operator.execute(context)

    operator.on_kill()

    assert (service.count("POST", ":cancel") == 1) is is_cancelled


class _StoppedError(Exception):
    """The test ends the wait."""


def _stop(_: float) -> None:
    raise _StoppedError


def test_a_job_without_a_folder_is_refused_before_anything_is_sent(
    service: FakeService, context: Any
) -> None:
    with pytest.raises(
        AirflowFailException, match=r"InvalidArgument: wait_for_completion=True .* set job_dir"
    ):
        one_task(job_dir=None).execute(context)

    assert service.requests == []


def test_its_lineage_has_what_was_submitted_and_what_was_collected(
    service: FakeService, bucket: FakeBucket, context: Any, outputs: dict[str, Any]
) -> None:
    defer(context)
    finish(service, bucket)
    folder, operator = f"jobs/{outputs['job_id']}", one_task()
    bucket.objects[f"{folder}/model.joblib"] = b"model"

    resume(operator, context, job_id=outputs["job_id"])
    lineage = operator.get_openlineage_facets_on_complete(None)

    assert [dataset.name for dataset in lineage.inputs] == ["demo/digits"]
    assert [dataset.name for dataset in lineage.outputs] == [folder, f"{folder}/model.joblib"]
    assert lineage.run_facets


def test_an_earlier_job_of_the_same_content_is_collected(
    service: FakeService, bucket: FakeBucket, context: Any, outputs: dict[str, Any]
) -> None:
    defer(context, reuse_results=True)
    finish(service, bucket)
    bucket.objects[f"jobs/{outputs['job_id']}/model.joblib"] = b"model"
    context["ti"].run_id = "manual__2"
    context["task_state_store"].clear()

    result = one_task(reuse_results=True).execute(context)

    assert (result["reused"], result["metrics"]) == (True, {"accuracy": 0.97})
    assert len(service.jobs) == 1
