"""``trainingPipelines`` over HTTP: forms of requests, rights, the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.fakes.custom_jobs import make_pool
from tests.support.fakes.training_pipelines import BASE, MODEL, WITH_BASE, make_pipeline
from tests.unit.training_service.api.vertex_v1.pipelines.conftest import EndJob
from training_api.job.project_number import project_number
from training_api.states import JobState

LOCATION = "/vertex/v1/projects/demo/locations/us-central1"
PIPELINES, JOBS = f"{LOCATION}/trainingPipelines", f"{LOCATION}/customJobs"
NUMBERED = f"projects/{project_number('demo')}/locations/us-central1"
ADMIN, ANN, VIEWER = "token-of-the-administrator", "token-of-ann-0123456789", "token-of-a-viewer-0123"


def create(http: TestClient, **changes: Any) -> dict[str, Any]:
    created: dict[str, Any] = http.post(PIPELINES, json=make_pipeline(**changes)).raise_for_status().json()
    return created


def path_of(resource: dict[str, Any]) -> str:
    return f"/vertex/v1/{resource['name']}"


def job_of(pipeline: dict[str, Any]) -> str:
    return f"/vertex/v1/{pipeline['trainingTaskMetadata']['backingCustomJob']}"


def violations(answer: Any) -> dict[str, str]:
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    return {each["field"]: each["description"] for each in error["details"][0]["fieldViolations"]}


def test_a_pipeline_is_submitted_and_names_its_job_from_the_start(http: TestClient) -> None:
    created = create(http, labels={"team": "a"})

    assert created["name"].startswith(f"{NUMBERED}/trainingPipelines/")
    assert created["state"] == "PIPELINE_STATE_PENDING"
    assert created["createTime"] == created["updateTime"]
    assert "startTime" not in created
    assert created["trainingTaskInputs"] == make_pipeline()["trainingTaskInputs"]
    assert http.get(path_of(created)).json() == created
    job = http.get(job_of(created)).raise_for_status().json()
    assert (job["displayName"], job["labels"]) == ("pipeline-custom-job", {"team": "a"})
    assert job["jobSpec"] == created["trainingTaskInputs"]
    assert http.get(JOBS).json()["customJobs"] == [job]


def test_the_inputs_are_read_as_the_sdk_sends_them(http: TestClient) -> None:
    """Names of both kinds in one object, integers with a fraction, enums as numbers, nulls."""
    inputs = {
        "worker_pool_specs": [
            {
                "replica_count": 1.0,
                "machine_spec": {"machine_type": "n1-standard-4"},
                "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 100.0},
                "containerSpec": {"imageUri": "registry.test/p/i:1", "env": [{"name": "A", "value": "1"}]},
            }
        ],
        "base_output_directory": {"output_uri_prefix": BASE},
        "scheduling": {
            "timeout": "3600s",
            "max_wait_duration": None,
            "strategy": 4,
            "disable_retries": False,
        },
    }
    sent = {
        "display_name": "p",
        "training_task_definition": make_pipeline()["trainingTaskDefinition"],
        "training_task_inputs": inputs,
    }

    created = http.post(f"{PIPELINES}?$alt=json;enum-encoding=int", json=sent).raise_for_status().json()

    assert created["state"] == 2
    assert created["trainingTaskInputs"] == {
        "workerPoolSpecs": [
            {
                "replicaCount": "1",
                "machineSpec": {"machineType": "n1-standard-4"},
                "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100},
                "containerSpec": {"imageUri": "registry.test/p/i:1", "env": [{"name": "A", "value": "1"}]},
            }
        ],
        "baseOutputDirectory": {"outputUriPrefix": BASE},
        "scheduling": {"timeout": "3600s", "strategy": "SPOT"},
    }


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"trainingTaskDefinition": "gs://x"}, "trainingTaskDefinition", "runs no other task; got 'gs://x'"),
        ({"inputDataConfig": {"datasetId": "1"}}, "inputDataConfig", "no managed datasets"),
        ({"trainingTaskInputs": "x"}, "trainingTaskInputs", "must be an object"),
        (
            {"trainingTaskInputs": {"workerPools": []}},
            "trainingTaskInputs.workerPools",
            "Unknown name \"workerPools\" at 'training_pipeline.training_task_inputs': Cannot find field.",
        ),
        ({"trainingTaskInputs": {}}, "trainingTaskInputs.workerPoolSpecs[0]", "required"),
        (
            {"trainingTaskInputs": {"workerPoolSpecs": [make_pool(2)]}},
            "trainingTaskInputs.workerPoolSpecs[0].replicaCount",
            "1",
        ),
        ({"pipelineId": "1"}, "pipelineId", "Cannot find field"),
        ({"modelToUpload": MODEL}, "modelToUpload", "needs trainingTaskInputs.baseOutputDirectory"),
    ],
)
def test_a_broken_rule_is_told_by_its_field_and_leaves_no_job(
    http: TestClient, changes: dict[str, Any], field: str, told: str
) -> None:
    found = violations(http.post(PIPELINES, json=make_pipeline(**changes)))

    assert told in found[field]
    assert http.get(PIPELINES).json() == http.get(JOBS).json() == {}


def test_what_only_the_service_can_check_is_told_by_the_field_of_the_pipeline(http: TestClient) -> None:
    pipeline = make_pipeline(labels={"secret-key": ""})

    found = violations(http.post(PIPELINES, json=pipeline))

    assert found.keys() == {"labels.secret-key"}


def test_a_list_is_filtered_masked_and_paged(http: TestClient) -> None:
    names = [create(http, displayName=f"p{number}")["name"] for number in range(3)]

    first = http.get(PIPELINES, params={"pageSize": 2, "readMask": "name,trainingTaskInputs"}).json()
    rest = http.get(PIPELINES, params={"pageSize": 2, "pageToken": first["nextPageToken"]}).json()

    assert [each["name"] for each in [*first["trainingPipelines"], *rest["trainingPipelines"]]] == names[::-1]
    assert all(each.keys() == {"name", "trainingTaskInputs"} for each in first["trainingPipelines"])
    assert "nextPageToken" not in rest
    found = http.get(
        PIPELINES, params={"filter": 'display_name="p1" AND state=PIPELINE_STATE_PENDING'}
    ).json()
    assert [each["name"] for each in found["trainingPipelines"]] == [names[1]]
    elsewhere = PIPELINES.replace("us-central1", "europe-west4")
    assert http.get(elsewhere).json() == {}
    bad = http.get(PIPELINES, params={"filter": "state=JOB_STATE_RUNNING"})
    assert (bad.status_code, "PIPELINE_STATE_PENDING" in bad.text) == (400, True)
    assert violations(http.get(PIPELINES, params={"pageToken": "x"})).keys() == {"pageToken"}


def test_a_cancel_is_of_the_job_and_waits_for_it(http: TestClient) -> None:
    created = create(http)

    assert http.post(f"{path_of(created)}:cancel").json() == {}
    assert http.get(path_of(created)).json()["state"] == "PIPELINE_STATE_CANCELLING"
    assert http.get(job_of(created)).json()["state"] == "JOB_STATE_CANCELLING"
    assert http.post(f"{path_of(created)}:cancel", json={"force": True}).status_code == 400


def test_a_pipeline_that_has_ended_is_deleted_without_its_job(http: TestClient, end_job: EndJob) -> None:
    created = create(http)
    early = http.delete(path_of(created))
    end_job(created)

    assert (early.status_code, early.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert "cancel it, and delete it once it has ended" in early.json()["error"]["message"]
    assert http.post(f"{path_of(created)}:cancel", json={}).json() == {}
    operation = http.delete(path_of(created)).raise_for_status().json()
    assert operation["done"]
    assert http.get(f"/vertex/v1/{operation['name']}").json() == operation
    assert http.get(path_of(created)).status_code == 404
    assert http.get(job_of(created)).json()["state"] == "JOB_STATE_SUCCEEDED"


def test_a_pipeline_answers_when_its_job_was_deleted_first(http: TestClient, end_job: EndJob) -> None:
    created = create(http, modelToUpload=MODEL, job_spec=WITH_BASE)
    end_job(created)
    before = http.get(path_of(created)).json()
    http.delete(job_of(created)).raise_for_status()

    assert http.get(job_of(created)).status_code == 404
    assert http.get(path_of(created)).json() == before
    assert http.post(f"{path_of(created)}:cancel").json() == {}
    assert http.delete(path_of(created)).json()["done"]


def test_a_pipeline_that_failed_has_the_last_lines_of_its_job_until_that_is_deleted(
    http: TestClient, end_job: EndJob
) -> None:
    created = create(http)
    end_job(created, JobState.FAILED, said="ValueError: no data")

    error = http.get(path_of(created)).json()["error"]
    listed = http.get(PIPELINES).json()["trainingPipelines"][0]["error"]

    assert error == http.get(job_of(created)).json()["error"]
    assert error["message"].startswith("It exited with 1. \nValueError: no data\n\n")
    assert "no data" not in listed["message"]
    http.delete(job_of(created)).raise_for_status()
    assert http.get(path_of(created)).json()["error"] == listed


def test_a_pipeline_names_its_model_once_it_has_succeeded(http: TestClient, end_job: EndJob) -> None:
    created = create(http, modelToUpload=MODEL, job_spec=WITH_BASE)
    failing = create(http, modelToUpload=MODEL, job_spec=WITH_BASE)
    end_job(created)
    end_job(failing, JobState.FAILED)

    ended = http.get(path_of(created)).json()

    assert created["modelToUpload"] == http.get(path_of(failing)).json()["modelToUpload"] == MODEL
    assert ended["state"] == "PIPELINE_STATE_SUCCEEDED"
    assert ended["modelToUpload"]["versionId"] == "1"
    assert ended["modelToUpload"]["name"].startswith(f"{NUMBERED}/models/")
    assert ended["createTime"] <= ended["startTime"] <= ended["endTime"] == ended["updateTime"]


def test_the_project_of_a_pipeline_is_found_by_its_number_when_it_has_no_job(
    serve: Callable[..., TestClient], end_job: EndJob
) -> None:
    http = serve()
    created = create(http)
    end_job(created)
    http.delete(job_of(created)).raise_for_status()

    assert serve().get(path_of(created)).status_code == 200


@pytest.mark.parametrize("method", ["get", "delete"])
def test_a_pipeline_that_is_not_there_or_elsewhere_is_not_found(http: TestClient, method: str) -> None:
    elsewhere = path_of(create(http)).replace("us-central1", "europe-west4")

    absent = getattr(http, method)(f"{PIPELINES}/123")

    assert (absent.status_code, absent.json()["error"]["message"]) == (
        404,
        "The TrainingPipeline does not exist: 'projects/demo/locations/us-central1/trainingPipelines/123'",
    )
    assert getattr(http, method)(elsewhere).json()["error"]["message"].endswith("; it is in us-central1")


# --- rights


@pytest.fixture
def guarded(serve: Callable[..., TestClient], tmp_path: Path) -> TestClient:
    """A client of a service that knows three callers."""
    tokens = tmp_path / "tokens.json"
    principals = [
        {"principal": "user:admin@example.com", "token": ADMIN, "admin": True},
        {"principal": "user:ann@example.com", "token": ANN},
        {"principal": "user:viewer@example.com", "token": VIEWER},
    ]
    tokens.touch(0o600)
    tokens.write_text(json.dumps({"principals": principals}))
    http = serve(require_auth=True, tokens_file=tokens)
    policy = {
        "bindings": [
            {"role": "roles/aiplatform.user", "members": ["user:ann@example.com"]},
            {"role": "roles/aiplatform.viewer", "members": ["user:viewer@example.com"]},
        ]
    }
    http.post(
        "/v1/projects/demo:setIamPolicy", json={"policy": policy}, headers=bearer(ADMIN)
    ).raise_for_status()
    return http


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_roles_of_vertex_ai_decide(guarded: TestClient) -> None:
    created = guarded.post(PIPELINES, json=make_pipeline(), headers=bearer(ANN)).raise_for_status().json()
    path = path_of(created)

    for allowed in (path, PIPELINES, f"{LOCATION}/models"):
        assert guarded.get(allowed, headers=bearer(VIEWER)).status_code == 200
    assert guarded.post(PIPELINES, json=make_pipeline(), headers=bearer(VIEWER)).status_code == 403
    assert guarded.post(f"{path}:cancel", headers=bearer(VIEWER)).status_code == 403
    assert guarded.delete(path, headers=bearer(VIEWER)).status_code == 403
    assert guarded.delete(f"{LOCATION}/models/1", headers=bearer(VIEWER)).status_code == 403
    assert guarded.delete(f"{LOCATION}/models/1", headers=bearer(ANN)).status_code == 404
    assert guarded.get(PIPELINES).status_code == 401


def test_an_account_and_a_secret_take_rights_of_their_own(guarded: TestClient) -> None:
    acting = make_pipeline(job_spec={"serviceAccount": "a@demo.iam.gserviceaccount.com"})
    naming = make_pipeline(labels={"secret-key": ""})

    for sent, permission in (
        (acting, "iam.serviceAccounts.actAs"),
        (naming, "secretmanager.versions.access"),
    ):
        answer = guarded.post(PIPELINES, json=sent, headers=bearer(ANN))
        assert (answer.status_code, permission in answer.text) == (403, True)


def test_changes_are_in_the_audit_log(guarded: TestClient) -> None:
    created = guarded.post(PIPELINES, json=make_pipeline(), headers=bearer(ANN)).json()
    guarded.post(f"{path_of(created)}:cancel", headers=bearer(ANN))
    guarded.delete(path_of(created), headers=bearer(VIEWER))
    guarded.delete(f"{LOCATION}/models/1", headers=bearer(ANN))
    log = {"resourceNames": ["projects/demo"], "filter": 'logName:"cloudaudit.googleapis.com"'}

    found = guarded.post("/v2/entries:list", json=log, headers=bearer(ADMIN)).json()["entries"]

    name = created["name"].replace(str(project_number("demo")), "demo")
    said = [
        (each["protoPayload"]["methodName"], each["protoPayload"]["resourceName"])
        for each in found
        if each["protoPayload"]["serviceName"] == "aiplatform.googleapis.com"
    ]
    of_pipelines = "google.cloud.aiplatform.v1.PipelineService"
    assert said == [
        (f"{of_pipelines}.CreateTrainingPipeline", name),
        (f"{of_pipelines}.CancelTrainingPipeline", name),
        (f"{of_pipelines}.DeleteTrainingPipeline", name),
        (
            "google.cloud.aiplatform.v1.ModelService.DeleteModel",
            "projects/demo/locations/us-central1/models/1",
        ),
    ]
