"""What the events of a task's assets say of the result that it collected."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset

from container_training.runtime.asset_extra import describe_outlets
from training_api.job.results import JobResult, StateSeconds
from training_api.states import JobState

IMAGE = "127.0.0.1:5000/demo/digits@sha256:" + "a" * 64


def test_only_assets_are_described_and_what_was_there_stays() -> None:
    result = JobResult(
        job_id="a",
        state=JobState.SUCCEEDED,
        image=IMAGE,
        job_dir="gs://bkt/a",
        metrics={"accuracy": 0.9},
        model_uri=None,
        files=[],
        seconds=StateSeconds(queued=0, preparing=0, running=0, total=0),
    )
    model = Asset("model")

    class Event:
        extra: dict[str, Any] = {"of": "somebody else"}

    describe_outlets([model, "a table"], {"outlet_events": {model: Event}}, result)  # type: ignore[arg-type, typeddict-item]

    assert Event.extra["of"] == "somebody else"
    assert (Event.extra["job_id"], Event.extra["metrics"]) == ("a", {"accuracy": 0.9})
