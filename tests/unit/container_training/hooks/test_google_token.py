"""Access tokens: where they come from, when they are renewed, and where they go."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import google.auth.transport.requests
import httpx
import pytest
from airflow.sdk.exceptions import AirflowException
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import RefreshError
from google.auth.exceptions import TransportError as NoAnswer

from container_training.hooks.google_token import GoogleToken
from training_api.errors import AccessDenied, TransportError

URL = "https://us-central1-aiplatform.googleapis.com/v1/x"
GET_CREDENTIALS = "airflow.providers.google.common.hooks.base_google.GoogleBaseHook.get_credentials"
TOKEN_URI = "https://oauth2.test/token"


class Keys:
    """Credentials that count their renewals."""

    def __init__(self) -> None:
        self.token, self.count, self.valid = "", 0, False
        self.error: Exception | None = None

    def refresh(self, _: Any) -> None:
        if self.error is not None:
            raise self.error
        self.count += 1
        self.token, self.valid = f"token-{self.count}", True


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    found = Keys()
    monkeypatch.setattr(GET_CREDENTIALS, lambda _: found)
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", "google-cloud-platform://")
    return found


def ask(token: GoogleToken, *codes: int, url: str = URL) -> list[str]:
    """Ask a server that answers with ``codes``; return the tokens that it saw."""
    seen: list[str] = []
    left = list(codes) or [200]

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization", ""))
        return httpx.Response(left.pop(0))

    with httpx.Client(transport=httpx.MockTransport(answer), auth=token) as client:
        client.get(url)
    return seen


def ask_async(token: GoogleToken, *codes: int, url: str = URL) -> list[str]:
    """Do the same by asyncio."""
    seen: list[str] = []
    left = list(codes) or [200]

    async def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization", ""))
        return httpx.Response(left.pop(0))

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), auth=token) as client:
            await client.get(url)

    asyncio.run(main())
    return seen


both_ways = pytest.mark.parametrize("send", [ask, ask_async])


@both_ways
def test_a_token_is_kept_while_it_is_good(keys: Keys, send: Callable[..., list[str]]) -> None:
    token = GoogleToken("google_cloud_default")

    assert send(token) + send(token) == ["Bearer token-1"] * 2
    keys.valid = False
    assert send(token) == ["Bearer token-2"]


@both_ways
def test_a_refused_token_is_renewed_once(keys: Keys, send: Callable[..., list[str]]) -> None:
    token = GoogleToken("google_cloud_default")

    assert send(token, 401, 200) == ["Bearer token-1", "Bearer token-2"]
    assert send(token, 401, 401) == ["Bearer token-2", "Bearer token-3"]
    assert send(token, 403) == ["Bearer token-3"]


@both_ways
def test_an_anonymous_connection_has_no_token(
    monkeypatch: pytest.MonkeyPatch, keys: Keys, send: Callable[..., list[str]]
) -> None:
    monkeypatch.setattr(GET_CREDENTIALS, lambda _: AnonymousCredentials())

    assert send(GoogleToken("google_cloud_default"), url="http://training-service/vertex") == [""]


@both_ways
@pytest.mark.parametrize("url", ["http://10.0.0.1/x", "http://us-central1-aiplatform.googleapis.com/x"])
def test_a_token_never_leaves_the_machine_without_tls(
    keys: Keys, send: Callable[..., list[str]], url: str
) -> None:
    with pytest.raises(
        AccessDenied, match="is sent by https or to this machine only, not to http://"
    ) as caught:
        send(GoogleToken("google_cloud_default"), url=url)

    assert "token-1" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1:8470", "localhost", "[::1]:8470"])
def test_a_token_may_go_to_a_service_of_this_machine(keys: Keys, host: str) -> None:
    assert ask(GoogleToken("google_cloud_default"), url=f"http://{host}/vertex") == ["Bearer token-1"]


def test_who_gives_no_token_is_named_with_the_way_out(keys: Keys) -> None:
    keys.error = RefreshError("invalid_grant")
    with pytest.raises(
        AccessDenied, match="'google_cloud_default' gives no access token: invalid_grant; check"
    ):
        ask(GoogleToken("google_cloud_default"))

    keys.error = AirflowException("the key is no JSON")
    with pytest.raises(AccessDenied, match="gives no access token: the key is no JSON; check"):
        ask(GoogleToken("google_cloud_default"))


def _wrapped() -> RefreshError:
    error = RefreshError("the metadata server")
    error.__cause__ = NoAnswer("timed out")
    return error


@pytest.mark.parametrize(
    "error",
    [NoAnswer("refused"), RefreshError("503", retryable=True), _wrapped()],
    ids=["silent", "5xx", "wrapped"],
)
def test_what_passes_is_no_refusal(keys: Keys, error: Exception) -> None:
    keys.error = error

    with pytest.raises(TransportError, match="access tokens cannot be had for now: "):
        ask(GoogleToken("google_cloud_default"))


class Google:
    """Google's token endpoints; each call is kept."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def __call__(self, url: str, method: str = "GET", body: Any = None, **_: Any) -> Any:
        text = body.decode() if isinstance(body, bytes) else str(body)
        self.calls.append((url, text))
        if url == TOKEN_URI:
            answer = {"access_token": "of-the-key", "expires_in": 3600, "token_type": "Bearer"}
        else:
            answer = {"accessToken": "of-the-last", "expireTime": "2099-01-01T00:00:00Z"}
        return SimpleNamespace(status=200, headers={}, data=json.dumps(answer).encode())


@pytest.fixture
def google_answers(monkeypatch: pytest.MonkeyPatch) -> Google:
    """Answer the calls of google-auth, and give the connection ``with_key`` a key."""
    found = Google()
    monkeypatch.setattr(
        google.auth.transport.requests.Request, "__call__", lambda _, *args, **kw: found(*args, **kw)
    )
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = {
        "type": "service_account",
        "client_email": "airflow@p.iam.gserviceaccount.com",
        "private_key": private.decode(),
        "private_key_id": "1",
        "project_id": "p",
        "token_uri": TOKEN_URI,
    }
    connection = {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": json.dumps(key)}}
    monkeypatch.setenv("AIRFLOW_CONN_WITH_KEY", json.dumps(connection))
    return found


def test_the_json_of_a_key_gives_a_token_that_is_not_shown(
    google_answers: Google, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = GoogleToken("with_key")

    assert ask(token) == ["Bearer of-the-key"]

    assert [url for url, _ in google_answers.calls] == [TOKEN_URI]
    shown = caplog.text + repr(token)
    assert "of-the-key" not in shown
    assert "PRIVATE KEY" not in shown


def test_a_chain_of_impersonation_ends_with_the_last_account(google_answers: Google) -> None:
    chain = ("middle@p.iam.gserviceaccount.com", "last@p.iam.gserviceaccount.com")

    assert ask(GoogleToken("with_key", chain)) == ["Bearer of-the-last"]

    (key_url, _), (url, body) = google_answers.calls
    assert key_url == TOKEN_URI
    assert url.endswith(f"/serviceAccounts/{chain[1]}:generateAccessToken")
    assert json.loads(body)["delegates"] == [chain[0]]
