"""``customJobs`` over HTTP: forms of requests, rights, the audit log, limits."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.job.project_number import project_number
from training_service.api.vertex_v1.project_numbers import ProjectIds

JOBS = "/vertex/v1/projects/demo/locations/us-central1/customJobs"
ADMIN, ANN, VIEWER = "token-of-the-administrator", "token-of-ann-0123456789", "token-of-a-viewer-0123"


def create(http: TestClient, **changes: Any) -> dict[str, Any]:
    created: dict[str, Any] = http.post(JOBS, json=make_custom_job() | changes).raise_for_status().json()
    return created


def path_of(job: dict[str, Any]) -> str:
    return f"/vertex/v1/{job['name']}"


def test_a_job_is_submitted_and_read_back(http: TestClient) -> None:
    created = create(http, labels={"team": "a"})

    assert created["name"].startswith(f"projects/{project_number('demo')}/locations/us-central1/customJobs/")
    assert created["name"].rpartition("/")[2].isdecimal()
    assert created["state"] == "JOB_STATE_QUEUED"
    assert created["labels"] == {"team": "a"}
    assert created["jobSpec"] == make_custom_job()["jobSpec"]
    assert created["createTime"] == created["updateTime"]
    assert http.get(path_of(created)).json() == created


def test_accelerators_that_are_not_there_are_refused_as_the_real_service_refuses_them(
    http: TestClient,
) -> None:
    gpu = {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}

    refused = http.post(JOBS, json=make_custom_job({**make_pool(), "machineSpec": gpu}))

    error = refused.json()["error"]
    assert (refused.status_code, error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert error["message"].startswith(
        "The following quota metrics exceed quota limits: "
        "aiplatform.googleapis.com/custom_model_training_nvidia_t4_gpus"
    )
    assert "customJobs" not in http.get(JOBS).json()


def test_two_jobs_of_one_name_are_two(http: TestClient) -> None:
    assert create(http)["name"] != create(http)["name"]


def test_the_project_is_found_by_its_id_and_by_its_number(http: TestClient) -> None:
    created = create(http)
    by_id = path_of(created).replace(str(project_number("demo")), "demo")

    assert http.get(by_id).json() == http.get(path_of(created)).json() == created
    numbered = JOBS.replace("demo", str(project_number("demo")))
    assert http.get(numbered).json()["customJobs"] == [created]


def test_a_kill_between_the_write_and_the_answer_loses_neither_the_job_nor_its_number(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(ids: ProjectIds, project: str) -> None:
        raise SystemError("the process ends here")

    with monkeypatch.context() as patch:
        patch.setattr(ProjectIds, "learn", killed)
        assert serve().post(JOBS, json=make_custom_job()).status_code == 500

    numbered = JOBS.replace("demo", str(project_number("demo")))
    (job,) = serve().get(numbered).json()["customJobs"]
    assert job["displayName"] == "job"


def test_enums_are_answered_as_integers_where_they_are_asked_for(http: TestClient) -> None:
    job = make_custom_job(scheduling={"strategy": 4})
    created = http.post(f"{JOBS}?$alt=json;enum-encoding=int", json=job).json()

    assert (created["state"], created["jobSpec"]["scheduling"]) == (1, {"strategy": 4})
    assert http.get(path_of(created)).json()["jobSpec"]["scheduling"] == {"strategy": "SPOT"}


@pytest.mark.parametrize("alt", ["$alt=proto", "alt=media"])
def test_another_form_of_answers_is_refused(http: TestClient, alt: str) -> None:
    error = http.get(f"{JOBS}?{alt}").json()["error"]

    assert (error["code"], error["details"][0]["fieldViolations"][0]["field"]) == (400, "$alt")


def test_a_list_filters_by_name_with_a_pattern(http: TestClient) -> None:
    for name in ("my_job_1", "my_job_2", "my%job", "other"):
        create(http, displayName=name)

    def names(text: str) -> list[str]:
        found = http.get(JOBS, params={"filter": text, "readMask": "displayName"}).raise_for_status().json()
        assert all(each.keys() == {"displayName"} for each in found.get("customJobs", []))
        return [each["displayName"] for each in found.get("customJobs", [])]

    assert names('display_name:"my_job_*"') == ["my_job_2", "my_job_1"]
    assert names('display_name:"*job*"') == ["my%job", "my_job_2", "my_job_1"]
    assert names('display_name:"my%*"') == ["my%job"]
    assert names('display_name:"job"') == []
    assert names('display_name="other"') == ["other"]
    assert names('NOT display_name:"my*"') == ["other"]
    assert names('state="JOB_STATE_RUNNING"') == []
    assert len(names('state!="JOB_STATE_FAILED" AND create_time>"2021-05-18T00:00:00Z"')) == 4


def test_a_pattern_has_few_wildcards(http: TestClient) -> None:
    error = http.get(JOBS, params={"filter": f'display_name:"{"*a" * 11}"'}).json()["error"]

    assert (error["code"], error["message"]) == (
        400,
        "text after 'display_name:' must have at most 10 '*', got 11; compare a part of it",
    )


def test_a_list_is_paged_newest_first(http: TestClient) -> None:
    names = [create(http)["name"] for _ in range(3)]
    first = http.get(JOBS, params={"pageSize": 2}).json()
    rest = http.get(JOBS, params={"pageSize": 2, "pageToken": first["nextPageToken"]}).json()

    assert [each["name"] for each in [*first["customJobs"], *rest["customJobs"]]] == names[::-1]
    assert "nextPageToken" not in rest


def test_jobs_of_the_two_dialects_do_not_see_each_other(http: TestClient) -> None:
    created = create(http)
    other = {"jobId": "job", "trainingInput": {"masterConfig": {"imageUri": "registry.test/p/i:1"}}}
    http.post("/v1/projects/demo/jobs", json=other).raise_for_status()

    assert len(http.get(JOBS).json()["customJobs"]) == 1
    assert len(http.get("/v1/projects/demo/jobs").json()["jobs"]) == 1
    assert http.get(f"{JOBS}/job").status_code == 404
    assert http.get(f"/v1/projects/demo/jobs/{created['name'].rpartition('/')[2]}").status_code == 404


def test_policies_are_of_jobs_of_the_other_dialect_and_logs_of_all(http: TestClient) -> None:
    job_id = create(http)["name"].rpartition("/")[2]

    assert http.get(f"/v1/projects/demo/jobs/{job_id}:getIamPolicy").status_code == 404
    log = http.get(f"/logs/projects/demo/jobs/{job_id}")
    assert (log.status_code, "is queued" in log.text) == (200, True)


def test_a_job_whose_row_cannot_be_read_is_listed_and_ended_as_every_other(
    http: TestClient, tmp_path: Path
) -> None:
    path = path_of(create(http))
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as database, database:
        database.execute("UPDATE jobs SET spec = json_set(spec, '$.form', 99)")

    (listed,) = http.get(JOBS).json()["customJobs"]

    assert path_of(listed) == path
    assert http.get(path).status_code == 200
    assert http.post(f"{path}:cancel").status_code == 200


def test_one_row_that_is_no_json_stops_no_list(http: TestClient, tmp_path: Path) -> None:
    create(http)
    kept = create(http)["name"]
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as database, database:
        database.execute("UPDATE jobs SET spec = '{', request = '{' WHERE sequence = 1")

    found = http.get(JOBS, params={"filter": 'display_name="job"'}).json()

    assert [each["name"] for each in found["customJobs"]] == [kept]


def test_a_job_that_has_not_ended_cannot_be_deleted(http: TestClient) -> None:
    answer = http.delete(path_of(create(http)))

    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert "cancel it, and delete it once it has ended" in answer.json()["error"]["message"]


def test_a_cancel_is_asked_with_or_without_a_body(http: TestClient) -> None:
    one, other = create(http), create(http)

    assert http.post(f"{path_of(one)}:cancel").json() == {}
    assert http.post(f"{path_of(other)}:cancel", json={}).json() == {}
    assert http.post(f"{path_of(other)}:cancel", json={"force": True}).status_code == 400
    assert http.get(path_of(one)).json()["state"] == "JOB_STATE_CANCELLING"


@pytest.mark.parametrize("method", ["get", "delete"])
def test_a_job_that_is_not_there_is_not_found(http: TestClient, method: str) -> None:
    answer = getattr(http, method)(f"{JOBS}/123")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == (
        "The CustomJob does not exist: 'projects/demo/locations/us-central1/customJobs/123'"
    )


def test_an_unknown_field_is_refused_in_the_words_of_the_real_service(http: TestClient) -> None:
    error = http.post(JOBS, json={**make_custom_job(), "jobSpecs": {}}).json()["error"]

    assert error["details"][0]["fieldViolations"] == [
        {"field": "jobSpecs", "description": "Unknown name \"jobSpecs\" at 'custom_job': Cannot find field."}
    ]


def test_a_body_that_is_too_long_is_refused_before_it_is_read(http: TestClient) -> None:
    too_long = http.post(JOBS, content=b" " * 2**21, headers={"Content-Type": "application/json"})
    of_cancel = http.post(
        f"{JOBS}/1:cancel", content=b" " * 2**17, headers={"Content-Type": "application/json"}
    )

    assert too_long.json()["error"]["message"].startswith(
        "Request payload size exceeds the limit: 1048576 bytes"
    )
    assert of_cancel.json()["error"]["message"].startswith(
        "Request payload size exceeds the limit: 65536 bytes"
    )


def test_another_name_of_the_host_is_refused(http: TestClient) -> None:
    answer = http.get(JOBS, headers={"Host": "us-central1-aiplatform.googleapis.com"})

    assert (answer.status_code, "TRAINING_ALLOWED_HOSTS" in answer.text) == (400, True)


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
    created = guarded.post(JOBS, json=make_custom_job(), headers=bearer(ANN)).raise_for_status().json()
    path = path_of(created)

    assert guarded.get(path, headers=bearer(VIEWER)).status_code == 200
    assert guarded.get(JOBS, headers=bearer(VIEWER)).status_code == 200
    assert guarded.post(JOBS, json=make_custom_job(), headers=bearer(VIEWER)).status_code == 403
    assert guarded.post(f"{path}:cancel", headers=bearer(VIEWER)).status_code == 403
    assert guarded.delete(path, headers=bearer(VIEWER)).status_code == 403
    assert guarded.get(JOBS).status_code == 401
    assert guarded.get(JOBS.replace("demo", "other"), headers=bearer(ANN)).status_code == 403


def test_an_account_and_a_secret_take_rights_of_their_own(guarded: TestClient) -> None:
    acting = make_custom_job(serviceAccount="a@demo.iam.gserviceaccount.com")
    naming = make_custom_job(labels={"secret-key": ""})

    for job, permission in ((acting, "iam.serviceAccounts.actAs"), (naming, "secretmanager.versions.access")):
        answer = guarded.post(JOBS, json=job, headers=bearer(ANN))
        assert (answer.status_code, permission in answer.text) == (403, True)


def test_changes_are_in_the_audit_log(guarded: TestClient) -> None:
    created = guarded.post(JOBS, json=make_custom_job(), headers=bearer(ANN)).json()
    guarded.post(f"{path_of(created)}:cancel", headers=bearer(ANN))
    guarded.delete(path_of(created), headers=bearer(VIEWER))
    log = {"resourceNames": ["projects/demo"], "filter": 'logName:"cloudaudit.googleapis.com"'}

    found = guarded.post("/v2/entries:list", json=log, headers=bearer(ADMIN)).json()["entries"]

    name = created["name"].replace(str(project_number("demo")), "demo")
    said = [
        (each["protoPayload"]["methodName"].rpartition(".")[2], each["protoPayload"]["resourceName"])
        for each in found
        if each["protoPayload"]["serviceName"] == "aiplatform.googleapis.com"
    ]
    assert said == [("CreateCustomJob", name), ("CancelCustomJob", name), ("DeleteCustomJob", name)]


# --- what there is not


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("get", "projects/demo/locations/us-central1/endpoints", "not endpoints; serve the model"),
        ("get", "projects/demo/locations/us-central1/pipelineJobs", "docs/vertex.md says what works"),
    ],
)
def test_what_is_not_served_is_refused_by_name(http: TestClient, method: str, path: str, told: str) -> None:
    answer = getattr(http, method)(f"/vertex/v1/{path}")

    assert (answer.status_code, answer.json()["error"]["status"]) == (501, "UNIMPLEMENTED")
    assert told in answer.json()["error"]["message"]


def test_a_method_that_a_path_does_not_have_is_not_allowed(http: TestClient) -> None:
    answer = http.patch(f"{JOBS}/1", json={})

    assert (answer.status_code, answer.headers["Allow"]) == (405, "DELETE, GET")


def test_the_other_version_of_the_api_is_not_served(http: TestClient) -> None:
    assert http.get(JOBS.replace("/v1/", "/v1beta1/")).status_code == 501


def test_images_commands_and_pools_are_kept_as_they_were_sent(http: TestClient) -> None:
    pools = [
        make_pool(command=["python3"], args=["$(A)"], env=[{"name": "A", "value": "1"}]),
        {},
        make_pool(2),
    ]

    created = create(http, jobSpec=make_custom_job(*pools)["jobSpec"])

    assert created["jobSpec"]["workerPoolSpecs"] == pools


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        ("n1-standard-4", "NVIDIA_TESLA_T4"),
        ("g2-standard-4", "NVIDIA_L4"),
        ("a3-highgpu-1g", "NVIDIA_H100_80GB"),
    ],
)
def test_the_dashboard_reads_jobs_of_both_dialects(
    serve: Callable[..., TestClient], machine: str, kind: str
) -> None:
    """Its client refuses a page in which one row has a word that it does not know."""
    http = serve(accelerators="ignore")
    gpu = {"machineType": machine, "acceleratorType": kind, "acceleratorCount": 1}
    chief = {**make_pool(), "machineSpec": gpu}
    http.post(JOBS, json=make_custom_job(chief, make_pool(2))).raise_for_status()
    other = {"jobId": "job", "trainingInput": {"masterConfig": {"imageUri": "registry.test/p/i:1"}}}
    http.post("/v1/projects/demo/jobs", json=other).raise_for_status()

    found = http.post("/ops/v1/projects/demo/jobs:search", json={}).raise_for_status().json()

    rows = SearchJobsResponse.model_validate(found).jobs or []
    assert [(row.training_input.master_type, row.training_input.worker_count) for row in rows] == [
        (None, None),
        (machine, 2),
    ]
