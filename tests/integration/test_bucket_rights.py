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


def package_job(job_id: str, uri: str) -> dict[str, Any]:
    """Return a job of the package at ``uri``."""
    training = {
        "packageUris": [uri],
        "pythonModule": "trainer.task",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
    }
    return {"jobId": job_id, "trainingInput": training}


def packages_of(service: LiveService, job_id: str) -> list[str]:
    """Return the packages that the job's container was started with."""
    launch = wait_until(
        lambda: next((each for each in service.engine.launches() if each.job_id == job_id), None),
        "the job is started",
    )
    return [word.removeprefix("--package=") for word in launch.args if word.startswith("--package=")]


def test_a_package_that_is_replaced_after_the_submission_is_not_the_one_that_starts(
    store: httpx.Client, tmp_path: Path
) -> None:
    uri = "gs://ours/trainer-0.0.0.tar.gz"
    settings: dict[str, Any] = {"storage_endpoint": str(store.base_url), "runtime_images": {"2.11": IMAGE}}
    submitted = put(store, "ours", "trainer-0.0.0.tar.gz", b"what was submitted")
    with run_service(tmp_path, max_replicas=1, **settings) as service:
        create(service, package_job("first", uri)).raise_for_status()
        create(service, package_job("second", uri)).raise_for_status()
        assert packages_of(service, "first") == [f"{uri}#{submitted}"]
    put(store, "ours", "trainer-0.0.0.tar.gz", b"what somebody else wants to run")

    # What was decided is stored: a service that starts anew begins the second job as it was submitted.
    with run_service(tmp_path, engine=service.engine, **settings) as service:
        assert packages_of(service, "second") == [f"{uri}#{submitted}"]
        shown = web.get(f"{service.endpoint}/v1/projects/{PROJECT}/jobs/second").json()

    assert shown["trainingInput"]["packageUris"] == [uri]


def test_a_job_cannot_ask_which_packages_another_project_has(store: httpx.Client, tmp_path: Path) -> None:
    put(store, "theirs", "secret-0.0.0.tar.gz", b"")
    settings: dict[str, Any] = {"storage_endpoint": str(store.base_url), "runtime_images": {"2.11": IMAGE}}
    with run_service(tmp_path, **settings) as service:
        answers = [
            create(service, package_job("spy", f"gs://theirs/{name}-0.0.0.tar.gz"))
            for name in ("secret", "absent")
        ]
        absent = create(service, package_job("spy", "gs://ours/absent-0.0.0.tar.gz"))

    assert [answer.status_code for answer in answers] == [400, 400]
    assert len({answer.json()["error"]["message"] for answer in answers}) == 1
    assert "bucket 'theirs' is not one of project 'p'" in answers[0].text
    assert "there is no gs://ours/absent-0.0.0.tar.gz" in absent.text


def test_summaries_are_read_from_a_bucket_of_the_project(store: httpx.Client, tmp_path: Path) -> None:
    with run_service(tmp_path, Behaviour(), storage_endpoint=str(store.base_url)) as service:
        tune(service, "gs://ours/study")

        assert final_steps(end_of(service, "study")) == [5]


def test_summaries_are_not_read_from_a_bucket_of_another_project(store: httpx.Client, tmp_path: Path) -> None:
    with run_service(tmp_path, Behaviour(), storage_endpoint=str(store.base_url)) as service:
        tune(service, "gs://theirs/study")

        assert final_steps(end_of(service, "study")) == []
        assert "bucket 'theirs' is not one of project 'p'" in log_of(service, "study")
