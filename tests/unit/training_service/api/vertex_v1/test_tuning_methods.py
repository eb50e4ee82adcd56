"""``hyperparameterTuningJobs`` over HTTP: forms of requests, kinds of jobs, rights."""

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
from tests.support.fakes.vertex_tuning_jobs import CONDITIONAL, make_study, make_tuning_job
from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.job.project_number import project_number

LOCATION = "/vertex/v1/projects/demo/locations/us-central1"
JOBS, CUSTOM_JOBS = f"{LOCATION}/hyperparameterTuningJobs", f"{LOCATION}/customJobs"
ADMIN, ANN, VIEWER = "token-of-the-administrator", "token-of-ann-0123456789", "token-of-a-viewer-0123"


def create(http: TestClient, **changes: Any) -> dict[str, Any]:
    created: dict[str, Any] = http.post(JOBS, json=make_tuning_job() | changes).raise_for_status().json()
    return created


def path_of(job: dict[str, Any]) -> str:
    return f"/vertex/v1/{job['name']}"


def test_a_job_is_submitted_and_read_back(http: TestClient) -> None:
    created = create(http, labels={"team": "a"})

    parent = f"projects/{project_number('demo')}/locations/us-central1"
    assert created["name"].startswith(f"{parent}/hyperparameterTuningJobs/")
    assert created["name"].rpartition("/")[2].isdecimal()
    assert (created["state"], created["labels"]) == ("JOB_STATE_QUEUED", {"team": "a"})
    for field in ("studySpec", "trialJobSpec", "maxTrialCount", "parallelTrialCount"):
        assert created[field] == make_tuning_job()[field]
    assert http.get(path_of(created)).json() == created


def test_snake_case_and_integers_for_enums_are_read_and_written(http: TestClient) -> None:
    """As the SDK sends them: zeros are left out, and so is the least value."""
    sent = {
        "display_name": "search",
        "study_spec": {
            "metrics": [{"metric_id": "loss", "goal": 2}],
            "parameters": [{"parameter_id": "a", "double_value_spec": {"max_value": 1}, "scale_type": 1}],
            "measurement_selection_type": 2,
        },
        "max_trial_count": 2,
        "parallel_trial_count": 1,
        "trial_job_spec": {"worker_pool_specs": [make_pool()]},
    }
    created = http.post(f"{JOBS}?$alt=json;enum-encoding=int", json=sent).raise_for_status().json()

    assert created["studySpec"] == {
        "metrics": [{"metricId": "loss", "goal": 2}],
        "parameters": [{"parameterId": "a", "doubleValueSpec": {"maxValue": 1.0}, "scaleType": 1}],
        "measurementSelectionType": 2,
    }
    assert http.get(path_of(created)).json()["studySpec"]["measurementSelectionType"] == "BEST_MEASUREMENT"


def test_custom_jobs_and_tuning_jobs_do_not_see_each_other(http: TestClient) -> None:
    tuning = create(http)
    custom = http.post(CUSTOM_JOBS, json=make_custom_job()).raise_for_status().json()

    assert http.get(JOBS).json() == {"hyperparameterTuningJobs": [tuning]}
    assert http.get(CUSTOM_JOBS).json() == {"customJobs": [custom]}
    for there, job, message in (
        (CUSTOM_JOBS, tuning, "CustomJob"),
        (JOBS, custom, "HyperparameterTuningJob"),
    ):
        path = f"{there}/{job['name'].rpartition('/')[2]}"
        for answer in (http.get(path), http.post(f"{path}:cancel"), http.delete(path)):
            assert answer.status_code == 404
            assert answer.json()["error"]["message"].startswith(f"The {message} does not exist: ")
    assert http.get(path_of(tuning)).json()["state"] == "JOB_STATE_QUEUED"


def test_a_list_filters_masks_and_pages(http: TestClient) -> None:
    for name in ("my_1", "my_2", "other"):
        create(http, displayName=name)
    http.post(CUSTOM_JOBS, json=make_custom_job() | {"displayName": "my_3"})
    asked = {"filter": 'display_name:"my*"', "readMask": "displayName,maxTrialCount", "pageSize": 1}

    first = http.get(JOBS, params=asked).json()
    rest = http.get(JOBS, params=asked | {"pageToken": first["nextPageToken"]}).json()

    assert first["hyperparameterTuningJobs"] == [{"displayName": "my_2", "maxTrialCount": 4}]
    assert rest == {"hyperparameterTuningJobs": [{"displayName": "my_1", "maxTrialCount": 4}]}


def test_a_cancelled_job_can_be_deleted_once_it_has_ended(http: TestClient, tmp_path: Path) -> None:
    path = path_of(create(http))
    active = http.delete(path)
    cancelled = http.post(f"{path}:cancel", json={})
    state = http.get(path).json()["state"]
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as database, database:
        database.execute("UPDATE jobs SET state = 'CANCELLED', ended_us = created_us")
    operation = http.delete(path).json()

    assert (active.status_code, active.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert (cancelled.json(), state) == ({}, "JOB_STATE_CANCELLING")
    assert operation["done"]
    assert http.get(f"/vertex/v1/{operation['name']}").json() == operation
    assert http.get(path).status_code == 404


def test_what_breaks_rules_is_named_by_its_path(http: TestClient) -> None:
    study = make_study(
        {"parameterId": "a", "categoricalValueSpec": {"values": ["x"]}, "conditionalParameterSpecs": [{}]}
    )
    error = http.post(JOBS, json=make_tuning_job(make_pool(2), study=study)).json()["error"]

    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert [each["field"] for each in error["details"][0]["fieldViolations"]] == [
        "trialJobSpec.workerPoolSpecs[0].replicaCount",
        "studySpec.parameters[0].conditionalParameterSpecs",
        "studySpec.parameters[0].conditionalParameterSpecs[0].parameterSpec.parameterId",
        "studySpec.parameters[0].conditionalParameterSpecs[0].parentCategoricalValues",
        "studySpec.parameters[0].conditionalParameterSpecs[0].parameterSpec",
    ]


def test_conditional_parameters_are_shown_as_they_were_sent(http: TestClient) -> None:
    study = make_study(CONDITIONAL, algorithm="GRID_SEARCH")
    created = create(http, studySpec=study)

    assert created["studySpec"] == study
    assert http.get(path_of(created)).json() == created
    shown = http.get(f"/ops/v1/projects/demo/jobs/{created['name'].rpartition('/')[2]}").json()
    assert [each.get("condition") for each in shown["study"]["parameters"]] == [
        None,
        {"parent": "kind", "values": ["deep"]},
        {"parent": "layers", "values": [2.0, 3.0]},
    ]


@pytest.mark.parametrize(
    ("field", "conditions"),
    [
        (
            "conditionalParameterSpecs[0].parentCategoricalValues",
            {"parentIntValues": {"values": ["1"]}, "parentCategoricalValues": {"values": ["deep"]}},
        ),
        ("conditionalParameterSpecs[0].parentIntValues", {"parentIntValues": {"values": ["1"]}}),
        (
            "conditionalParameterSpecs[0].parentCategoricalValues.values[0]",
            {"parentCategoricalValues": {"values": ["wide"]}},
        ),
    ],
    ids=["two", "of another kind", "no value of the parent"],
)
def test_a_condition_that_cannot_hold_is_refused(
    http: TestClient, field: str, conditions: dict[str, Any]
) -> None:
    (child,) = CONDITIONAL["conditionalParameterSpecs"]
    wrong = {
        **CONDITIONAL,
        "conditionalParameterSpecs": [{**conditions, "parameterSpec": child["parameterSpec"]}],
    }
    study = make_study(wrong, algorithm="GRID_SEARCH")
    error = http.post(JOBS, json=make_tuning_job(study=study)).json()["error"]

    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    (violation,) = error["details"][0]["fieldViolations"]
    assert violation["field"] == f"studySpec.parameters[0].{field}"


def test_an_unknown_field_is_refused_in_the_words_of_the_real_service(http: TestClient) -> None:
    job = make_tuning_job(study=make_study(transferLearningConfig={}))
    error = http.post(JOBS, json=job).json()["error"]

    assert error["details"][0]["fieldViolations"][0]["description"] == (
        "Unknown name \"transferLearningConfig\" at 'hyperparameter_tuning_job.study_spec': Cannot find field."
    )


def test_two_rules_of_early_stopping_are_one_too_many(http: TestClient) -> None:
    study = make_study(medianAutomatedStoppingSpec={}, decayCurveStoppingSpec={})
    error = http.post(JOBS, json=make_tuning_job(study=study)).json()["error"]

    assert "cannot be set together with" in error["details"][0]["fieldViolations"][0]["description"]


def test_a_job_whose_specification_cannot_be_read_stays_of_its_kind(http: TestClient, tmp_path: Path) -> None:
    created = create(http)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as database, database:
        database.execute("UPDATE jobs SET spec = json_set(spec, '$.form', 99)")

    assert [each["name"] for each in http.get(JOBS).json()["hyperparameterTuningJobs"]] == [created["name"]]
    assert http.get(path_of(created)).status_code == 200
    assert http.get(CUSTOM_JOBS).json() == {}
    assert http.get(f"{CUSTOM_JOBS}/{created['name'].rpartition('/')[2]}").status_code == 404


def test_what_the_service_finds_is_told_by_paths_of_the_tuning_job(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_service.wiring.missing_for_tuning", lambda: ["scipy"])
    error = serve().post(JOBS, json=make_tuning_job()).json()["error"]

    (violation,) = error["details"][0]["fieldViolations"]
    assert violation["field"] == "studySpec"
    assert "cannot tune without scipy" in violation["description"]


def test_the_dashboard_reads_the_row(http: TestClient) -> None:
    create(http)

    found = http.post("/ops/v1/projects/demo/jobs:search", json={}).raise_for_status().json()

    (row,) = SearchJobsResponse.model_validate(found).jobs or []
    search = row.training_input.hyperparameters
    assert search is not None
    assert (search.max_trials, search.hyperparameter_metric_tag) == (4, "accuracy")
    assert row.training_input.master_type == "n1-standard-4"


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
    bindings = [
        {"role": "roles/aiplatform.user", "members": ["user:ann@example.com"]},
        {"role": "roles/aiplatform.viewer", "members": ["user:viewer@example.com"]},
    ]
    policy = {"policy": {"bindings": bindings}}
    http.post("/v1/projects/demo:setIamPolicy", json=policy, headers=bearer(ADMIN)).raise_for_status()
    return http


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_roles_of_vertex_ai_decide_and_changes_are_in_the_audit_log(guarded: TestClient) -> None:
    created = guarded.post(JOBS, json=make_tuning_job(), headers=bearer(ANN)).raise_for_status().json()
    path = path_of(created)

    assert guarded.get(path, headers=bearer(VIEWER)).status_code == 200
    assert guarded.get(JOBS, headers=bearer(VIEWER)).status_code == 200
    assert guarded.post(JOBS, json=make_tuning_job(), headers=bearer(VIEWER)).status_code == 403
    assert guarded.post(f"{path}:cancel", headers=bearer(VIEWER)).status_code == 403
    assert guarded.post(f"{path}:cancel", headers=bearer(ANN)).status_code == 200
    assert guarded.delete(path, headers=bearer(VIEWER)).status_code == 403
    assert guarded.get(JOBS).status_code == 401

    log = {"resourceNames": ["projects/demo"], "filter": 'logName:"cloudaudit.googleapis.com"'}
    found = guarded.post("/v2/entries:list", json=log, headers=bearer(ADMIN)).json()["entries"]
    name = created["name"].replace(str(project_number("demo")), "demo")
    said = [
        (each["protoPayload"]["methodName"].rpartition(".")[2], each["protoPayload"]["resourceName"])
        for each in found
        if "HyperparameterTuningJob" in each["protoPayload"]["methodName"]
    ]
    assert said == [
        ("CreateHyperparameterTuningJob", name),
        ("CreateHyperparameterTuningJob", "projects/demo"),
        ("CancelHyperparameterTuningJob", name),
        ("CancelHyperparameterTuningJob", name),
        ("DeleteHyperparameterTuningJob", name),
    ]
