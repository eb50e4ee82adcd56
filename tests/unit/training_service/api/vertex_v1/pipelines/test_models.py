"""``models`` over HTTP: left by pipelines, uploaded by clients, and what is not served."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.fakes.training_pipelines import MODEL, WITH_BASE, make_pipeline
from tests.unit.training_service.api.vertex_v1.pipelines.conftest import EndJob
from training_api.job.project_number import project_number
from training_service.api.vertex_v1.pipelines import model_methods

LOCATION = "/vertex/v1/projects/demo/locations/us-central1"
MODELS = f"{LOCATION}/models"
NUMBERED = f"projects/{project_number('demo')}/locations/us-central1"


@pytest.fixture
def trained(http: TestClient, end_job: EndJob) -> dict[str, Any]:
    """A pipeline that has left a model."""
    model = {**MODEL, "labels": {"team": "a"}, "versionAliases": ["golden"], "description": "d"}
    sent = make_pipeline(modelToUpload=model, job_spec=WITH_BASE)
    created = http.post(f"{LOCATION}/trainingPipelines", json=sent).raise_for_status().json()
    end_job(created)
    pipeline: dict[str, Any] = http.get(f"/vertex/v1/{created['name']}").json()
    return pipeline


def test_a_model_says_what_it_is_and_where_it_lies(http: TestClient, trained: dict[str, Any]) -> None:
    name = trained["modelToUpload"]["name"]

    model = http.get(f"/vertex/v1/{name}").raise_for_status().json()

    times = dict.fromkeys(
        ("createTime", "updateTime", "versionCreateTime", "versionUpdateTime"), trained["endTime"]
    )
    assert model == {
        **MODEL,
        "name": name,
        "labels": {"team": "a"},
        "description": "d",
        "artifactUri": "gs://bucket/base/model/",
        "versionId": "1",
        "versionAliases": ["default", "golden"],
        "trainingPipeline": trained["name"],
        "modelSourceInfo": {"sourceType": "CUSTOM"},
        **times,
    }
    assert name.startswith(f"{NUMBERED}/models/")
    integers = http.get(f"/vertex/v1/{name}?$alt=json;enum-encoding=int").json()
    assert integers["modelSourceInfo"] == {"sourceType": 2}


@pytest.mark.parametrize("version", ["1", "default", "golden"])
def test_a_model_is_found_by_its_one_version(http: TestClient, trained: dict[str, Any], version: str) -> None:
    name = trained["modelToUpload"]["name"]

    assert http.get(f"/vertex/v1/{name}@{version}").json() == http.get(f"/vertex/v1/{name}").json()


def test_another_version_is_not_found(http: TestClient, trained: dict[str, Any]) -> None:
    answer = http.get(f"/vertex/v1/{trained['modelToUpload']['name']}@2")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"].endswith("has no version '2'; it has 1, default, golden")


def test_models_are_listed_filtered_and_masked(http: TestClient, trained: dict[str, Any]) -> None:
    name = trained["modelToUpload"]["name"]

    def names(text: str = "") -> list[str]:
        found = http.get(MODELS, params={"filter": text, "readMask": "name"}).raise_for_status().json()
        assert all(each.keys() == {"name"} for each in found.get("models", []))
        return [each["name"] for each in found.get("models", [])]

    assert names() == names('display_name="a model"') == names("labels.team=a") == [name]
    assert names(f"model={name.rpartition('/')[2]}") == [name]
    assert names('displayName="other"') == []
    assert http.get(MODELS.replace("us-central1", "europe-west4")).json() == {}
    ordered = http.get(MODELS, params={"orderBy": "create_time"})
    assert (ordered.status_code, "sort what is listed" in ordered.text) == (400, True)


def test_a_model_is_deleted_and_outlives_its_pipeline(http: TestClient, trained: dict[str, Any]) -> None:
    path = f"/vertex/v1/{trained['modelToUpload']['name']}"
    http.delete(f"/vertex/v1/{trained['name']}").raise_for_status()

    assert http.get(path).status_code == 200
    operation = http.delete(path).raise_for_status().json()

    assert operation["done"]
    assert [http.get(path).status_code, http.delete(path).status_code] == [404, 404]
    assert http.get(MODELS).json() == {}


def test_a_model_of_another_location_is_not_found(http: TestClient, trained: dict[str, Any]) -> None:
    name = trained["modelToUpload"]["name"].replace("us-central1", "europe-west4")

    assert http.get(f"/vertex/v1/{name}").json()["error"]["message"].endswith("; it is in us-central1")


# --- uploads


def upload(http: TestClient, model: dict[str, Any], **more: Any) -> Any:
    return http.post(f"{MODELS}:upload", json={"model": model, **more})


def test_an_uploaded_model_is_one_without_a_pipeline(http: TestClient) -> None:
    sent = {**MODEL, "artifactUri": "gs://bucket/m/", "labels": {"team": "a"}, "versionAliases": ["golden"]}

    operation = upload(http, sent, modelId="mine-1").raise_for_status().json()

    name = f"{NUMBERED}/models/mine-1"
    answered = {"model": name, "modelVersionId": "1"}
    assert operation["done"]
    assert operation["response"].items() >= answered.items()
    assert http.get(f"/vertex/v1/{operation['name']}").json() == operation
    model = http.get(f"/vertex/v1/{name}@golden").raise_for_status().json()
    assert model.items() >= {**sent, "name": name, "versionAliases": ["default", "golden"]}.items()
    assert "trainingPipeline" not in model
    assert http.get(MODELS, params={"filter": "labels.team=a"}).json() == {"models": [model]}
    http.delete(f"/vertex/v1/{name}").raise_for_status()
    assert http.get(MODELS).json() == {}


def test_an_upload_without_an_id_gets_one_and_leaves_out_what_is_output_only(http: TestClient) -> None:
    names = {
        upload(http, {**MODEL, "name": "mine", "versionId": "7", "trainingPipeline": "p"}).json()["response"][
            "model"
        ]
        for _ in range(2)
    }

    assert len(names) == 2
    for name in names:
        model = http.get(f"/vertex/v1/{name}").json()
        assert (model["name"], model["versionId"]) == (name, "1")
        assert "trainingPipeline" not in model


def test_an_id_is_used_once_and_again_after_a_deletion(http: TestClient) -> None:
    upload(http, MODEL, modelId="mine").raise_for_status()

    again = upload(http, {**MODEL, "displayName": "another"}, modelId="mine")

    assert (again.status_code, again.json()["error"]["status"]) == (409, "ALREADY_EXISTS")
    assert "has a model 'mine' already; delete it" in again.json()["error"]["message"]
    (kept,) = http.get(MODELS).json()["models"]
    assert kept["displayName"] == MODEL["displayName"]
    http.delete(f"{MODELS}/mine").raise_for_status()
    upload(http, MODEL, modelId="mine").raise_for_status()


def test_a_project_has_no_more_uploads_than_the_rule_says(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_methods, "MAX_UPLOADED", 2)
    for model_id in ("one", "two"):
        upload(http, MODEL, modelId=model_id).raise_for_status()

    refused = upload(http, MODEL, modelId="three")

    assert (refused.status_code, refused.json()["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert "has 2 uploaded models, and may have 2; delete those" in refused.json()["error"]["message"]
    http.delete(f"{MODELS}/one").raise_for_status()
    upload(http, MODEL, modelId="three").raise_for_status()


def test_every_broken_rule_of_an_upload_is_named(http: TestClient) -> None:
    model = {"containerSpec": {}, "artifactUri": "/tmp/m", "versionAliases": ["1"]}

    answer = upload(http, model, modelId="1A", parentModel="p", serviceAccount="a@b.c")

    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert [each["field"] for each in answer.json()["error"]["details"][0]["fieldViolations"]] == [
        "parentModel",
        "serviceAccount",
        "modelId",
        "model.displayName",
        "model.versionAliases[0]",
        "model.containerSpec.imageUri",
        "model.artifactUri",
    ]
    assert http.get(MODELS).json() == {}


def test_an_upload_that_cannot_be_read_is_refused_by_its_field(http: TestClient) -> None:
    answer = upload(http, {**MODEL, "colour": "red"})

    assert answer.status_code == 400
    assert "colour" in answer.json()["error"]["message"]


# --- what is not served


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", "models:copy"),
        ("post", "models/1:export"),
        ("get", "models/1:listVersions"),
        ("delete", "models/1@1:deleteVersion"),
        ("get", "models/1/evaluations"),
    ],
)
def test_other_methods_of_models_are_refused_by_name(http: TestClient, method: str, path: str) -> None:
    answer = getattr(http, method)(f"{LOCATION}/{path}")

    assert (answer.status_code, answer.json()["error"]["status"]) == (501, "UNIMPLEMENTED")
    assert "this service has upload, get, list and delete" in answer.json()["error"]["message"]


def test_a_model_cannot_be_changed_or_deployed(http: TestClient) -> None:
    assert http.patch(f"{MODELS}/1", json={}).status_code == 405
    deployed = http.post(f"{LOCATION}/endpoints", json={})
    assert (deployed.status_code, "server of your own" in deployed.text) == (501, True)
