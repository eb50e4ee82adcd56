"""Jobs whose results a later task may reuse."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from container_training.operators.training import SubmitTrainingJobOperator
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import EPOCH, FakeService
from tests.unit.container_training.conftest import StateStore
from training_api.states import JobState

IMAGE = "127.0.0.1:5000/demo/digits@sha256:" + "a" * 64


@pytest.fixture
def data(bucket: FakeBucket) -> FakeBucket:
    """Return the bucket with the data that the jobs read."""
    bucket.objects = {"data/a.csv": b"1", "data/b.csv": b"2", "data-2.csv": b"3"}
    return bucket


def make_operator(**changes: Any) -> SubmitTrainingJobOperator:
    given = {
        "task_id": "submit",
        "image": IMAGE,
        "args": ["--epochs", 3],
        "job_dir": "gs://bucket/jobs/{job_id}",
        "data_uris": ["gs://bucket/data"],
        "reuse_results": True,
        **changes,
    }
    operator = SubmitTrainingJobOperator(**given)
    operator._sleep = lambda _: None
    return operator


def new_run(context: dict[str, Any]) -> dict[str, Any]:
    """Return the context of the same task in another run, with a separate state store."""
    number = context.setdefault("runs", 1)
    context["runs"] = number + 1
    ti = SimpleNamespace(**vars(context["ti"]))
    ti.run_id = f"manual__{number + 1}"
    ti.pushed = {}
    ti.xcom_push = lambda key, value: ti.pushed.update({key: value})
    return {"ti": ti, "task_state_store": StateStore()}


def finish(service: FakeService, bucket: FakeBucket, job_id: str, *names: str) -> None:
    """End ``job_id`` well, with files in its folder."""
    service.jobs[job_id] = service.jobs[job_id].model_copy(
        update={
            "state": JobState.SUCCEEDED,
            "start_time": EPOCH,
            "end_time": EPOCH + timedelta(seconds=90),
        }
    )
    for name in names or ("metrics.json", "model.joblib"):
        bucket.objects[f"jobs/{job_id}/{name}"] = b"{}"


@pytest.fixture
def earlier(service: FakeService, data: FakeBucket, context: dict[str, Any]) -> str:
    """Return the id of a job of another run that ended well."""
    job_id = make_operator().execute(new_run(context))
    finish(service, data, job_id)
    return job_id
