"""The registry's token endpoint over HTTP: logins good and bad, in both forms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tests.integration.live_service import LiveService, run_service
from training_service.access.identity import IdentityTokens
from training_service.access.signing_key import SigningKey

TOKEN = "a-token-of-some-length"
SERVICE = "training-registry"
SCOPE = "repository:demo/a:pull,push"
GRANTED = [{"type": "repository", "name": "demo/a", "actions": ["pull", "push"]}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[LiveService]:
    tokens = folder / "tokens.json"
    entry = {"principal": "user:ann@example.com", "token": TOKEN, "owns": ["demo"]}
    tokens.write_text(json.dumps({"principals": [entry]}))
    tokens.chmod(0o600)
    with run_service(folder, tokens_file=tokens) as service:
        yield service


def get(
    live: LiveService, login: tuple[str, str] | None, scope: Any = SCOPE, **params: str
) -> httpx.Response:
    return httpx.get(
        f"{live.endpoint}/registry/token",
        params={"service": SERVICE, "scope": scope, **params},
        auth=login,
        trust_env=False,
    )


def post(live: LiveService, **form: str) -> httpx.Response:
    return httpx.post(f"{live.endpoint}/registry/token", data=form, trust_env=False)


def granted(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["token"] == body["access_token"]
    assert body["expires_in"] == 300
    assert answer.headers["Cache-Control"] == "no-store"
    return jwt.decode(body["token"], options={"verify_signature": False})["access"]


@pytest.mark.parametrize("user", ["oauth2accesstoken", "ann@example.com"])
def test_a_token_is_a_password_for_its_owner_and_for_the_common_user(service: LiveService, user: str) -> None:
    assert granted(get(service, (user, TOKEN), account=user, client_id="docker")) == GRANTED
    form = {"grant_type": "password", "service": SERVICE, "scope": SCOPE}
    assert granted(post(service, **form, username=user, password=TOKEN)) == GRANTED


def test_several_scopes_come_one_by_one_or_in_one(service: LiveService) -> None:
    login = ("oauth2accesstoken", TOKEN)
    names = ["demo/a", "demo/b"]
    scopes = [f"repository:{name}:pull" for name in names]

    for scope in (scopes, " ".join(scopes)):
        assert [part["name"] for part in granted(get(service, login, scope))] == names


def test_an_identity_token_of_the_service_is_a_password(service: LiveService, folder: Path) -> None:
    token = IdentityTokens(SigningKey.load_or_make(folder)).issue("user:bob@example.com")

    assert granted(get(service, ("oauth2accesstoken", token))) == []
    assert granted(get(service, ("bob@example.com", token))) == []


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
def test_a_bad_login_is_a_401_in_the_registrys_form(service: LiveService, login: tuple[str, str]) -> None:
    form = {"grant_type": "password", "username": login[0], "password": login[1], "service": SERVICE}
    for answer in (get(service, login), post(service, **form)):
        assert answer.status_code == 401
        assert answer.json()["errors"][0]["code"] == "UNAUTHORIZED"
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
        assert "token" not in answer.json()


def test_an_identity_of_another_services_key_is_nobodys(service: LiveService) -> None:
    forged = IdentityTokens(SigningKey.generate()).issue("user:ann@example.com")

    assert get(service, ("oauth2accesstoken", forged)).status_code == 401


def test_a_token_for_the_registry_is_no_password(service: LiveService) -> None:
    token = get(service, ("oauth2accesstoken", TOKEN)).json()["token"]

    assert get(service, ("oauth2accesstoken", token)).status_code == 401


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Basic /w==", "Bearer x", "Basic YTpi\tX: y"])
def test_a_header_that_is_no_login_is_a_401(service: LiveService, header: str) -> None:
    url = f"{service.endpoint}/registry/token?service={SERVICE}&scope={SCOPE}"

    answer = httpx.get(url, headers={"Authorization": header}, trust_env=False)

    assert answer.status_code == 401


def test_nobody_in_particular_gets_a_token_for_nothing(service: LiveService) -> None:
    assert granted(get(service, None)) == []


def test_another_registry_another_grant_type_and_a_huge_form_are_refused(service: LiveService) -> None:
    assert get(service, None, service="another").status_code == 400
    assert post(service, grant_type="refresh_token", refresh_token=TOKEN, service=SERVICE).status_code == 400
    assert post(service, grant_type="password", scope="x" * 100_000).status_code == 413


def test_no_password_and_no_token_is_in_the_log(
    service: LiveService, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        token = get(service, ("oauth2accesstoken", TOKEN)).json()["token"]
        get(service, ("oauth2accesstoken", "a-wrong-password"))

    printed = capfd.readouterr()
    text = printed.out + printed.err + caplog.text
    assert "token for the registry" in text
    assert "was refused" in text
    assert not [secret for secret in (TOKEN, token, "a-wrong-password") if secret in text]
