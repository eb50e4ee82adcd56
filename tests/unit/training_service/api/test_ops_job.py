"""``/ops/v1/.../jobs/JOB``: one job of any dialect, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.fakes.custom_jobs import IMAGE, make_custom_job, make_pool
from tests.support.fakes.training_pipelines import make_pipeline
from tests.support.fakes.vertex_tuning_jobs import make_tuning_job
from training_api.dialects.ml_v1.job_rows import JobDetail, SearchJobsResponse
from training_api.job.project_number import project_number
from training_api.job.tuning.search_terms import ParameterKind, ScaleType

OPS = "/ops/v1/projects/demo/jobs"
LOCATION = "/vertex/v1/projects/demo/locations/us-central1"
NUMBERED = f"projects/{project_number('demo')}/locations/us-central1"
ADMIN, AIRFLOW = "token-of-the-administrator", "token-of-airflow-0123456789"


def create(http: TestClient, collection: str, body: dict[str, Any]) -> dict[str, Any]:
    created: dict[str, Any] = http.post(f"{LOCATION}/{collection}", json=body).raise_for_status().json()
    return created


def id_of(resource: dict[str, Any]) -> str:
    return str(resource["name"].rpartition("/")[2])


def detail(http: TestClient, job_id: str) -> JobDetail:
    return JobDetail.model_validate(http.get(f"{OPS}/{job_id}").raise_for_status().json())


def test_a_job_of_ml_v1_has_what_it_runs_and_what_was_asked(http: TestClient) -> None:
    asked = {
        "jobId": "job",
        "labels": {"team": "a"},
        "trainingInput": {
            "region": "us-central1",
            "masterConfig": {"imageUri": IMAGE},
            "args": ["--epochs", "3"],
            "jobDir": "gs://bucket/jobs/job",
        },
    }
    http.post("/v1/projects/demo/jobs", json=asked).raise_for_status()

    found = detail(http, "job")

    assert (found.job.job_id, found.job.dialect, found.job.display_name) == ("job", "ml_v1", "")
    assert (found.name, found.output_dir) == ("projects/demo/jobs/job", "gs://bucket/jobs/job")
    (pool,) = found.pools
    assert (pool.name, pool.count, pool.image) == ("master", 1, IMAGE)
    assert pool.args == ["--epochs", "3", "--job-dir", "gs://bucket/jobs/job"]
    assert found.request == asked
    assert found.max_running_seconds == 7 * 86400
    assert (found.study, found.pipeline, found.trials) == (None, None, [])


def test_a_custom_job_has_its_name_and_its_pools(http: TestClient) -> None:
    body = make_custom_job(make_pool(), make_pool(2, command=["run"], args=["x"]), labels={"team": "a"})
    created = create(http, "customJobs", body)

    found = detail(http, id_of(created))

    assert (found.job.dialect, found.job.display_name) == ("vertex_v1", "job")
    assert found.name == created["name"] == f"{NUMBERED}/customJobs/{id_of(created)}"
    assert [(pool.name, pool.count, pool.command) for pool in found.pools] == [
        ("workerpool0", 1, []),
        ("workerpool1", 2, ["run"]),
    ]
    assert (found.region, found.job.labels) == ("us-central1", {"team": "a"})
    assert found.request["jobSpec"] == created["jobSpec"]


def test_a_tuning_job_has_its_name_and_its_search(http: TestClient) -> None:
    created = create(http, "hyperparameterTuningJobs", make_tuning_job())

    found = detail(http, id_of(created))

    assert found.name == f"{NUMBERED}/hyperparameterTuningJobs/{id_of(created)}"
    assert found.study is not None
    assert (found.study.metric_tag, found.study.max_trials) == ("accuracy", 4)
    (parameter,) = found.study.spec.parameters
    assert (parameter.name, parameter.kind) == ("rate", ParameterKind.DOUBLE)
    assert (parameter.low, parameter.high, parameter.scale) == (0.001, 1.0, ScaleType.LOG)


def test_the_job_of_a_pipeline_is_found_by_the_id_of_either(http: TestClient) -> None:
    pipeline = create(http, "trainingPipelines", make_pipeline())
    backing = pipeline["trainingTaskMetadata"]["backingCustomJob"]

    found = detail(http, id_of(pipeline))

    assert found == detail(http, backing.rpartition("/")[2])
    assert found.name == backing
    assert found.pipeline is not None
    assert (found.pipeline.name, found.pipeline.display_name) == (pipeline["name"], pipeline["displayName"])


def test_a_table_names_the_dialect_and_what_its_submitter_calls_a_job(http: TestClient) -> None:
    create(http, "customJobs", make_custom_job())

    answer = http.post(f"{OPS}:search", json={}).json()

    (row,) = SearchJobsResponse.model_validate(answer).jobs
    assert (row.dialect, row.display_name) == ("vertex_v1", "job")


@pytest.mark.parametrize("collection", ["customJobs", "hyperparameterTuningJobs", "trainingPipelines"])
def test_a_job_of_each_kind_is_cancelled(http: TestClient, collection: str) -> None:
    bodies = {
        "customJobs": make_custom_job(),
        "hyperparameterTuningJobs": make_tuning_job(),
        "trainingPipelines": make_pipeline(),
    }
    created = create(http, collection, bodies[collection])

    for _ in range(2):  # the second time it is ending already
        assert http.post(f"{OPS}/{id_of(created)}:cancel", json={}).json() == {}

    assert detail(http, id_of(created)).job.state == "CANCELLING"


@pytest.mark.parametrize("job_id", ["nothing", "1" * 19, "9" * 5000, "a%2Fb", "..", "%F0%9F%98%80"])
def test_an_id_that_no_job_has_is_not_there(http: TestClient, job_id: str) -> None:
    for answer in (http.get(f"{OPS}/{job_id}"), http.post(f"{OPS}/{job_id}:cancel", json={})):
        assert answer.status_code in (404, 405), answer.text
        assert len(answer.text) < 6000


def test_another_project_does_not_have_the_job(http: TestClient) -> None:
    created = create(http, "customJobs", make_custom_job())

    answer = http.get(f"/ops/v1/projects/other/jobs/{id_of(created)}")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"job {id_of(created)!r} not found in project 'other'"


def test_rights_are_those_of_the_ops_api_whatever_the_dialect(
    serve: Callable[..., TestClient], tmp_path: Path
) -> None:
    entries = [
        {"token": ADMIN, "principal": "user:root@x.y", "admin": True},
        {
            "token": AIRFLOW,
            "principal": "serviceAccount:airflow@x.y",
            "roles": {"demo": ["roles/training.airflow"]},
        },
        {
            "token": "token-of-a-viewer-0123",
            "principal": "user:eve@x.y",
            "roles": {"demo": ["roles/ml.viewer"]},
        },
    ]
    tokens = tmp_path / "tokens.json"
    tokens.touch(0o600)
    tokens.write_text(json.dumps({"principals": entries}), "utf-8")
    http = serve(require_auth=True, tokens_file=tokens)

    def ask(token: str, method: str, path: str, **more: Any) -> Any:
        return http.request(method, path, headers={"Authorization": f"Bearer {token}"}, **more)

    job_id = id_of(ask(ADMIN, "POST", f"{LOCATION}/customJobs", json=make_custom_job()).json())

    viewer = "token-of-a-viewer-0123"
    assert ask(viewer, "GET", f"{OPS}/{job_id}").status_code == 200
    assert ask(viewer, "POST", f"{OPS}/{job_id}:cancel", json={}).status_code == 403
    assert ask(AIRFLOW, "GET", f"/ops/v1/projects/other/jobs/{job_id}").status_code == 403
    assert ask(AIRFLOW, "POST", f"{OPS}/{job_id}:cancel", json={}).status_code == 200
    assert http.get(f"{OPS}/{job_id}").status_code == 401
