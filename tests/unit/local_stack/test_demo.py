import pytest

from local_stack.demo import demo_result, task_progress

COLLECTED = {
    "job_id": "train_digits_1",
    "state": "SUCCEEDED",
    "image": "127.0.0.1:5000/demo-project/digits@sha256:0",
    "metrics": {"accuracy": 0.97},
    "model_uri": "gs://demo-bucket/jobs/train_digits_1/model",
    "seconds": {"queued": 0.1, "preparing": 0.2, "running": 3.0, "total": 3.3},
}


def test_the_result_is_what_the_collect_task_returned() -> None:
    assert demo_result("run", "success", COLLECTED, backend="vertex") == {
        "dag_run": "run",
        "backend": "vertex",
        **COLLECTED,
    }


@pytest.mark.parametrize(
    ("run_state", "collected"),
    [("failed", COLLECTED), ("success", {}), ("success", {**COLLECTED, "state": "FAILED"})],
)
def test_a_run_without_a_succeeded_job_has_failed(run_state: str, collected: dict[str, object]) -> None:
    result = demo_result("run", run_state, collected, backend="ml.v1")

    assert result["state"] == "FAILED"
    assert set(result) == {"dag_run", "backend", *COLLECTED}


def test_a_finished_task_is_shown_with_its_seconds() -> None:
    task = {
        "task_id": "train.build",
        "map_index": -1,
        "try_number": 1,
        "state": "success",
        "start_date": "2026-11-20T10:00:00.500000Z",
        "end_date": "2026-11-20T10:00:02Z",
    }

    progress = task_progress(task)

    assert progress is not None
    assert progress.line() == "  train.build: finished after 1.5 s"


def test_a_later_attempt_of_a_mapped_task_says_so() -> None:
    task = {"task_id": "trial", "map_index": 3, "try_number": 2, "state": "deferred", "start_date": None}

    progress = task_progress(task)

    assert progress is not None
    assert progress.line() == "  trial[3] (attempt 2): waiting for the job"


@pytest.mark.parametrize("state", [None, "scheduled", "queued"])
def test_a_task_that_has_not_started_is_not_shown(state: str | None) -> None:
    assert task_progress({"task_id": "t", "state": state}) is None
