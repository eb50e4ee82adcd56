"""The registry's token endpoint: logins good and bad, in both forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from fastapi.testclient import TestClient

from training_service.access.identity import IdentityTokens
from training_service.access.signing_key import SigningKey

TOKEN = "a-token-of-some-length"
SERVICE = "training-registry"
SCOPE = "repository:demo/a:pull,push"
GRANTED = [{"type": "repository", "name": "demo/a", "actions": ["pull", "push"]}]


@pytest.fixture(scope="module")
def http(serve_shared: Callable[..., TestClient], tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A client of a service that knows Ann's token; it keeps nothing of what it is asked."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.json"
    entry = {"principal": "user:ann@example.com", "token": TOKEN, "owns": ["demo"]}
    tokens.write_text(json.dumps({"principals": [entry]}))
    tokens.chmod(0o600)
    return serve_shared(tokens_file=tokens)


def get(http: TestClient, login: tuple[str, str] | None, scope: Any = SCOPE, **params: str) -> httpx.Response:
    query = {"service": SERVICE, "scope": scope, **params}
    return http.get("/registry/token", params=query, **({"auth": login} if login else {}))


def post(http: TestClient, **form: str) -> httpx.Response:
    return http.post("/registry/token", data=form)


def granted(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["token"] == body["access_token"]
    assert body["expires_in"] == 300
    assert answer.headers["Cache-Control"] == "no-store"
    return jwt.decode(body["token"], options={"verify_signature": False})["access"]


@pytest.mark.parametrize("user", ["oauth2accesstoken", "ann@example.com"])
def test_a_token_is_a_password_for_its_owner_and_for_the_common_user(http: TestClient, user: str) -> None:
    assert granted(get(http, (user, TOKEN), account=user, client_id="docker")) == GRANTED
    form = {"grant_type": "password", "service": SERVICE, "scope": SCOPE}
    assert granted(post(http, **form, username=user, password=TOKEN)) == GRANTED


def test_several_scopes_come_one_by_one_or_in_one(http: TestClient) -> None:
    login = ("oauth2accesstoken", TOKEN)
    names = ["demo/a", "demo/b"]
    scopes = [f"repository:{name}:pull" for name in names]

    for scope in (scopes, " ".join(scopes)):
        assert [part["name"] for part in granted(get(http, login, scope))] == names


def test_an_identity_token_of_the_service_is_a_password(http: TestClient, key_dir: Path) -> None:
    token = IdentityTokens(SigningKey.load_or_make(key_dir)).issue("user:bob@example.com")

    assert granted(get(http, ("oauth2accesstoken", token))) == []
    assert granted(get(http, ("bob@example.com", token))) == []


@pytest.mark.parametrize(
    "login",
    [
        ("oauth2accesstoken", "wrong"),
        ("oauth2accesstoken", ""),
        ("bob@example.com", TOKEN),
        ("", TOKEN),
        ("ann@example.com", ""),
    ],
)
def test_a_bad_login_is_a_401_in_the_registrys_form(http: TestClient, login: tuple[str, str]) -> None:
    form = {"grant_type": "password", "username": login[0], "password": login[1], "service": SERVICE}
    for answer in (get(http, login), post(http, **form)):
        assert answer.status_code == 401
        assert answer.json()["errors"][0]["code"] == "UNAUTHORIZED"
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
        assert "token" not in answer.json()


def test_an_identity_of_another_services_key_is_nobodys(http: TestClient) -> None:
    forged = IdentityTokens(SigningKey.generate()).issue("user:ann@example.com")

    assert get(http, ("oauth2accesstoken", forged)).status_code == 401


def test_a_token_for_the_registry_is_no_password(http: TestClient) -> None:
    token = get(http, ("oauth2accesstoken", TOKEN)).json()["token"]

    assert get(http, ("oauth2accesstoken", token)).status_code == 401


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Basic /w==", "Bearer x", "Basic YTpi\tX: y"])
def test_a_header_that_is_no_login_is_a_401(http: TestClient, header: str) -> None:
    url = f"/registry/token?service={SERVICE}&scope={SCOPE}"

    answer = http.get(url, headers={"Authorization": header})

    assert answer.status_code == 401


def test_nobody_in_particular_gets_a_token_for_nothing(http: TestClient) -> None:
    assert granted(get(http, None)) == []


def test_another_registry_another_grant_type_and_a_huge_form_are_refused(http: TestClient) -> None:
    assert get(http, None, service="another").status_code == 400
    assert post(http, grant_type="client_credentials", service=SERVICE).status_code == 400
    assert post(http, grant_type="password", scope="x" * 100_000).status_code == 413


def test_a_token_for_the_registry_is_given_again_for_itself_and_for_nothing_more(http: TestClient) -> None:
    token = get(http, ("oauth2accesstoken", TOKEN), "repository:demo/a:pull").json()["token"]
    form = {
        "grant_type": "refresh_token",
        "service": SERVICE,
        "scope": SCOPE,
        "client_id": "containers/image",
    }

    again = post(http, **form, refresh_token=token)

    assert again.status_code == 200
    assert again.json()["token"] == token
    assert 0 < again.json()["expires_in"] <= 300


@pytest.mark.parametrize("refresh_token", ["", TOKEN, "a.b.c"])
def test_what_is_no_token_for_the_registry_gets_none(http: TestClient, refresh_token: str) -> None:
    form = {"grant_type": "refresh_token", "service": SERVICE, "refresh_token": refresh_token}

    answer = post(http, **form)

    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (401, "UNAUTHORIZED")
    assert post(http, **{**form, "service": "another"}).status_code == 400


def test_an_identity_token_is_no_refresh_token(http: TestClient, key_dir: Path) -> None:
    token = IdentityTokens(SigningKey.load_or_make(key_dir)).issue("user:ann@example.com")

    assert post(http, grant_type="refresh_token", service=SERVICE, refresh_token=token).status_code == 401


def test_no_password_and_no_token_is_in_the_log(
    http: TestClient, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        token = get(http, ("oauth2accesstoken", TOKEN)).json()["token"]
        get(http, ("oauth2accesstoken", "a-wrong-password"))

    printed = capfd.readouterr()
    text = printed.out + printed.err + caplog.text
    assert "token for the registry" in text
    assert "was refused" in text
    assert not [secret for secret in (TOKEN, token, "a-wrong-password") if secret in text]
