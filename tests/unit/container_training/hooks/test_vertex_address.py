"""What a connection to Vertex AI says, and what of it goes along with requests."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from airflow.sdk import Connection
from google.oauth2.credentials import Credentials

from container_training.hooks.service_address import InvalidConnection
from container_training.hooks.vertex_address import VertexService, vertex_service
from training_api.clients.network import Network

GET_CREDENTIALS = "airflow.providers.google.common.hooks.base_google.GoogleBaseHook.get_credentials"
SECRET = "a-secret-token"


def service(extra: dict[str, Any] | None = None, **fields: Any) -> VertexService:
    text = json.dumps({"project": "p", **(extra or {})})
    all_fields = {"conn_id": "v", "conn_type": "vertex_training", "extra": text}
    return vertex_service(Connection(**{**all_fields, **fields}))


class Sent(list[httpx.Request]):
    """The requests that reached the network; each list is empty."""

    def answer(self, _: Any, request: httpx.Request) -> httpx.Response:
        self.append(request)
        return httpx.Response(200, json={})

    async def answer_async(self, _: Any, request: httpx.Request) -> httpx.Response:
        return self.answer(_, request)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    found = Sent()
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *a: found.answer(*a))
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", lambda *a: found.answer_async(*a))
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The provider's hooks that were asked for credentials."""
    found: list[Any] = []

    def get_credentials(hook: Any) -> Credentials:
        found.append(hook)
        return Credentials(token=SECRET)

    monkeypatch.setattr(GET_CREDENTIALS, get_credentials)
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", "google-cloud-platform://")
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "google-cloud-platform://")
    return found


def list_both_ways(where: VertexService) -> None:
    """List jobs by the client for threads, and by the one for asyncio."""

    async def list_async() -> None:
        async with where.connect_async() as client:
            await client.list_jobs()

    with where.connect() as client:
        client.list_jobs()
    asyncio.run(list_async())


@pytest.mark.parametrize(
    ("extra", "regions"),
    [
        ({}, ("us-central1",)),
        ({"region": "europe-west4"}, ("europe-west4",)),
        ({"regions": ["a", " b "]}, ("a", "b")),
        ({"regions": "a, b,"}, ("a", "b")),
        ({"regions": [], "region": "a"}, ("a",)),
        ({"regions": "a,b", "region": "c"}, ("a", "b")),
    ],
)
def test_jobs_are_in_one_region_or_several_and_are_made_in_the_first(
    extra: dict[str, Any], regions: tuple[str, ...]
) -> None:
    found = service(extra)

    assert found.address.regions == regions
    assert found.endpoint == f"https://{regions[0]}-aiplatform.googleapis.com"


@pytest.mark.parametrize(
    ("fields", "endpoint"),
    [
        ({"host": "http://127.0.0.1:8470/vertex/"}, "http://127.0.0.1:8470/vertex"),
        ({"host": "vertex.internal"}, "https://vertex.internal"),
        ({"host": "h", "schema": "http", "port": 1}, "http://h:1"),
        ({"host": "https://h/vertex", "port": 2}, "https://h:2/vertex"),
    ],
)
def test_a_host_serves_all_regions(fields: dict[str, Any], endpoint: str) -> None:
    assert service({"regions": "a,b"}, **fields).endpoint == endpoint


def test_a_connection_without_a_project_is_refused() -> None:
    with pytest.raises(InvalidConnection, match=r"connection 'v' has no extra\.project: the project id"):
        service({"project": ""})


@pytest.mark.parametrize("name", ["min_poll_seconds", "list_lag_seconds"])
def test_seconds_are_those_of_the_connection_or_safe_ones(name: str) -> None:
    assert {"min_poll_seconds": 5.0, "list_lag_seconds": 60.0}[name] == getattr(service(), name)
    assert getattr(service({name: "7"}), name) == 7.0
    with pytest.raises(InvalidConnection, match=f"extra.{name}: it must be a number of seconds"):
        service({name: -1})
    with service({"list_lag_seconds": 7}, password=SECRET).connect() as client:
        assert client.capabilities.list_lag_seconds == 7.0


def test_the_password_is_the_token_and_nobody_is_asked_for_another(sent: Sent, asked: list[Any]) -> None:
    list_both_ways(service(password=SECRET))

    assert [request.headers["Authorization"] for request in sent] == [f"Bearer {SECRET}"] * 2
    assert asked == []


@pytest.mark.parametrize(
    ("extra", "gcp_conn_id", "chain"),
    [
        ({}, "google_cloud_default", None),
        ({"gcp_conn_id": "other", "impersonation_chain": "a@p, b@p"}, "other", ("a@p", "b@p")),
        ({"impersonation_chain": ["a@p"]}, "google_cloud_default", ("a@p",)),
    ],
)
def test_the_token_is_that_of_the_google_connection_and_its_chain(
    sent: Sent,
    asked: list[Any],
    extra: dict[str, Any],
    gcp_conn_id: str,
    chain: tuple[str, ...] | None,
) -> None:
    list_both_ways(service(extra))

    assert [request.headers["Authorization"] for request in sent] == [f"Bearer {SECRET}"] * 2
    assert [(hook.gcp_conn_id, hook.impersonation_chain) for hook in asked] == [(gcp_conn_id, chain)] * 2


@pytest.mark.parametrize("password", ["", SECRET])
def test_calls_are_counted_for_the_quota_project_if_there_is_one(
    sent: Sent, asked: list[Any], password: str
) -> None:
    list_both_ways(service({"quota_project": "payer"}, password=password))
    list_both_ways(service(password=password))

    assert [request.headers.get("X-Goog-User-Project") for request in sent] == ["payer"] * 2 + [None] * 2


def test_the_way_is_that_of_the_connection(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[tuple[Network, str]] = []
    for name in ("transport", "async_transport"):
        original = getattr(Network, name)

        def seen(network: Network, url: str, original: Any = original) -> Any:
            ways.append((network, url))
            return original(network, url)

        monkeypatch.setattr(Network, name, seen)

    found = service({"verify": False, "proxy": "http://proxy:3128", "region": "a"}, password=SECRET)
    list_both_ways(found)

    way = Network(verify=False, proxy="http://proxy:3128")
    assert found.network == way
    assert ways == [(way, "https://a-aiplatform.googleapis.com")] * 2
    with pytest.raises(InvalidConnection, match="verify: it must be the path of a file"):
        service({"verify": "/no/such/file"})


@pytest.mark.parametrize("password", ["", SECRET])
def test_a_secret_is_neither_shown_nor_logged_nor_in_a_url(
    sent: Sent, asked: list[Any], caplog: pytest.LogCaptureFixture, password: str
) -> None:
    caplog.set_level(logging.DEBUG)
    found = service({"proxy": f"http://me:{SECRET}@proxy:3128"}, password=password)

    list_both_ways(found)

    assert len(sent) == 2
    shown = [repr(found), str(found), repr(vars(found.connect())), *(str(request.url) for request in sent)]
    assert SECRET not in caplog.text + "".join(shown)


def test_waits_of_equal_connections_share_a_poller() -> None:
    assert service(conn_id="one") == service(conn_id="two")
    assert hash(service(conn_id="one")) == hash(service(conn_id="two"))
    assert service() != service({"region": "b"})
    assert service() != service({"impersonation_chain": "a@p"})
