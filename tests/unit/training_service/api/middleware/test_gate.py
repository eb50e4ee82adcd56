"""Who is turned away by the headers alone."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient

JOBS = "/v1/projects/demo-project/jobs"
OWN = "http://localhost:8470"


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/job:cancel", "/v2/entries:list", "/health", "/openapi.json"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:8080", "", "http://["])
def test_the_page_of_another_site_is_turned_away(unchanged: TestClient, path: str, origin: str) -> None:
    for method in ("GET", "POST"):
        answer = unchanged.request(method, path, headers={"host": "localhost:8470", "origin": origin})

        assert answer.status_code == 403
        assert "web pages of other sites" in answer.json()["error"]["message"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_form_of_another_site_is_turned_away_and_a_link_is_not(unchanged: TestClient, site: str) -> None:
    headers = {"host": "localhost:8470", "sec-fetch-site": site}

    assert unchanged.post(f"{JOBS}/job:cancel", headers=headers).status_code == 403
    assert unchanged.get(JOBS, headers=headers).status_code == 200


def test_a_page_of_the_service_itself_may_ask(unchanged: TestClient) -> None:
    headers = {"host": "localhost:8470", "origin": OWN, "sec-fetch-site": "same-origin"}

    assert unchanged.get(JOBS, headers=headers).status_code == 200
    assert unchanged.post(f"{JOBS}/job:cancel", headers=headers).status_code == 404


def test_a_refusal_has_the_form_of_the_api_that_is_asked(unchanged: TestClient) -> None:
    headers = {"origin": "http://evil.example"}

    storage = unchanged.get("/storage/v1/b/bucket/iam", headers=headers).json()["error"]
    training = unchanged.get(JOBS, headers=headers).json()["error"]

    assert storage["errors"][0]["reason"] == "forbidden"
    assert training["status"] == "PERMISSION_DENIED"


@pytest.mark.parametrize("host", ["evil.example", "[::1", "127.0.0.1.evil.example", ""])
def test_a_foreign_name_is_refused(unchanged: TestClient, host: str) -> None:
    assert unchanged.get(JOBS, headers={"host": host}).status_code == 400


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_there_is_no_page_with_scripts_from_outside(unchanged: TestClient, path: str) -> None:
    assert unchanged.get(path).status_code == 404


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_is_not_sent_as_json_is_not_read_as_json(http: TestClient, kind: str | None) -> None:
    image = {"imageUri": "localhost:5000/demo-project/image:1"}
    training = {"scaleTier": "BASIC", "region": "us-central1", "masterConfig": image}
    body = json.dumps({"jobId": "a", "trainingInput": training})

    assert http.post(JOBS, content=body, headers={"content-type": kind} if kind else {}).status_code == 400
    answer = http.post(JOBS, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
