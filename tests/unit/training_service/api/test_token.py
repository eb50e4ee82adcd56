"""The token endpoint of service accounts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from fastapi.testclient import TestClient

from training_service.access.account_keys import GRANT_AUDIENCE
from training_service.access.key_file import make_key_file, public_key_of

EMAIL = "ci@demo-project.iam.gserviceaccount.com"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
JOBS = "/v1/projects/demo-project/jobs"


@pytest.fixture
def key(tmp_path: Path) -> dict[str, Any]:
    make_key_file(tmp_path / "key.json", EMAIL, "http://127.0.0.1:8470/token")
    content: dict[str, Any] = json.loads((tmp_path / "key.json").read_text())
    return content


@pytest.fixture
def http(serve: Callable[..., TestClient], tmp_path: Path, key: dict[str, Any]) -> TestClient:
    """A service that wants tokens, and knows the key of one account."""
    entry = {
        "principal": f"serviceAccount:{EMAIL}",
        "public_key": public_key_of(tmp_path / "key.json"),
        "roles": {"demo-project": ["roles/ml.viewer"]},
    }
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"principals": [entry]}))
    tokens.chmod(0o600)
    return serve(require_auth=True, tokens_file=tokens)


def grant(key: dict[str, Any], **changes: Any) -> str:
    now = int(time.time())
    claims = {"iss": EMAIL, "aud": GRANT_AUDIENCE, "iat": now, "exp": now + 3600}
    scope = {"scope": "https://www.googleapis.com/auth/cloud-platform"}
    return jwt.encode(claims | scope | changes, key["private_key"], "RS256")


def test_a_grant_is_answered_with_a_token_that_has_what_the_tokens_file_gives(
    http: TestClient, key: dict[str, Any]
) -> None:
    answer = http.post("/token", data={"grant_type": GRANT, "assertion": grant(key)})

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
    assert answer.headers["cache-control"] == "no-store"
    bearer = {"Authorization": f"Bearer {body['access_token']}"}
    assert http.get(JOBS, headers=bearer).status_code == 200
    assert http.get("/v1/projects/other-project/jobs", headers=bearer).status_code == 403


def test_a_token_that_the_account_signs_itself_is_as_good(http: TestClient, key: dict[str, Any]) -> None:
    signed = grant(key, sub=EMAIL, aud="https://ml.googleapis.com/")
    foreign = grant(key, sub=EMAIL, aud="https://example.com/")

    assert http.get(JOBS, headers={"Authorization": f"Bearer {signed}"}).status_code == 200
    refused = http.get(JOBS, headers={"Authorization": f"Bearer {foreign}"})
    assert refused.status_code == 401
    assert "for somebody else" in refused.text
    assert foreign not in refused.text


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "unsupported_grant_type"),
        ({"grant_type": "password", "assertion": "a.b.c"}, "unsupported_grant_type"),
        ({"grant_type": GRANT}, "invalid_grant"),
        ({"grant_type": GRANT, "assertion": "a.b.c"}, "invalid_grant"),
        ({"grant_type": GRANT, "assertion": "x" * 10_000}, "invalid_grant"),
        ({"grant_type": GRANT, "assertion": "x" * 20_000}, "invalid_request"),
    ],
)
def test_what_is_no_grant_gets_an_error_of_oauth(http: TestClient, form: dict[str, str], error: str) -> None:
    answer = http.post("/token", data=form)

    assert answer.status_code == (413 if error == "invalid_request" else 400)
    assert answer.json()["error"] == error
    assert set(answer.json()) == {"error", "error_description"}


def test_a_service_without_keys_gives_nobody_a_token(
    serve: Callable[..., TestClient], key: dict[str, Any]
) -> None:
    answer = serve().post("/token", data={"grant_type": GRANT, "assertion": grant(key)})

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
