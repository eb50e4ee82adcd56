"""A job that names a bucket of another project gets nothing out of it by the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from container_engines.memory.engine import Behaviour
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.bed.store_thread import store_in_thread
from tests.support.fakes.studies import search
from tests.support.waiting import wait_until
from training_api.dialects.ml_v1.resources import Job

PROJECT, ANOTHER = "p", "other"
EVENTS = (
    Path(__file__).parents[1] / "unit" / "training_service" / "intake" / "events" / "tf1-0.tfevents"
).read_bytes()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[httpx.Client]:
    """A store with a bucket of each project; both have the summary file of a first trial."""
    with store_in_thread(tmp_path / "store") as url, web.client(url) as store:
        for project, bucket in ((PROJECT, "ours"), (ANOTHER, "theirs")):
            store.post("/storage/v1/b", params={"project": project}, json={"name": bucket}).raise_for_status()
            put(store, bucket, "study/1/events.out.tfevents.1.host", EVENTS)
        yield store


def put(store: httpx.Client, bucket: str, name: str, content: bytes) -> int:
    """Write an object; return its generation."""
    answer = store.post(f"/upload/storage/v1/b/{bucket}/o", params={"name": name}, content=content)
    return int(answer.raise_for_status().json()["generation"])


def tune(service: LiveService, job_dir: str) -> None:
    """Submit a tuning job of one trial in ``PROJECT``."""
    training = {
        "masterConfig": {"imageUri": IMAGE},
        "jobDir": job_dir,
        "hyperparameters": search(max_trials=1, max_parallel_trials=1).to_wire(),
    }
    create(service, {"jobId": "study", "trainingInput": training}).raise_for_status()


def create(service: LiveService, job: dict[str, Any]) -> httpx.Response:
    return web.post(f"{service.endpoint}/v1/projects/{PROJECT}/jobs", json=job)


def end_of(service: LiveService, job_id: str) -> Job:
    """Return the job when it has ended."""

    def ended() -> Job | None:
        service.engine.advance(10)
        job = Job.model_validate(web.get(f"{service.endpoint}/v1/projects/{PROJECT}/jobs/{job_id}").json())
        return job if job.end_time else None

    return wait_until(ended, "the job has ended")


def final_steps(job: Job) -> list[int | None]:
    """Return the steps of the trials' last reports."""
    output = job.training_output
    return [
        trial.final_metric.training_step
        for trial in (output and output.trials) or []
        if trial.final_metric is not None
    ]


def log_of(service: LiveService, job_id: str) -> str:
    query = {"resourceNames": [f"projects/{PROJECT}"], "filter": f'resource.labels.job_id="{job_id}"'}
    return web.post(f"{service.endpoint}/v2/entries:list", json=query).text


def test_summaries_are_read_from_a_bucket_of_the_project(store: httpx.Client, tmp_path: Path) -> None:
    with run_service(tmp_path, Behaviour(), storage_endpoint=str(store.base_url)) as service:
        tune(service, "gs://ours/study")

        assert final_steps(end_of(service, "study")) == [5]


def test_summaries_are_not_read_from_a_bucket_of_another_project(store: httpx.Client, tmp_path: Path) -> None:
    with run_service(tmp_path, Behaviour(), storage_endpoint=str(store.base_url)) as service:
        tune(service, "gs://theirs/study")

        assert final_steps(end_of(service, "study")) == []
        assert "bucket 'theirs' is not one of project 'p'" in log_of(service, "study")
