"""Policies of buckets: whom the store asks, and what it passes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from object_store.api.policies import BucketPolicies
from tests.unit.object_store.conftest import BUCKET, MakeSite, Site

Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def ask_with(make_site: MakeSite) -> Iterator[Callable[..., Site]]:
    made: list[tuple[Site, BucketPolicies]] = []

    def make(answer: Answer, url: str = "http://training.test:1/") -> Site:
        policies = BucketPolicies(url, httpx.MockTransport(answer))
        site = make_site(policies=policies)
        site.store.create_bucket("demo", {})
        made.append((site, policies))
        return site

    yield make
    for site, policies in made:
        site.runner.run(policies.close())


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def test_the_callers_token_goes_along_and_its_cookies_do_not(ask_with: Callable[..., Site]) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(403, json={"error": {"code": 403}})

    site = ask_with(answer)
    headers = {"Authorization": "Bearer t", "Cookie": "c=1", "Content-Type": "application/json"}

    given = site.ask("PUT", f"{BUCKET}/iam?alt=json", content=b'{"a": 1}', headers=headers)

    assert (given.status_code, given.json()) == (403, {"error": {"code": 403}})
    (request,) = seen
    assert str(request.url) == "http://training.test:1/storage/v1/b/demo/iam?alt=json"
    assert (request.method, request.content) == ("PUT", b'{"a": 1}')
    assert request.headers["Authorization"] == "Bearer t"
    assert "Cookie" not in request.headers


def test_permissions_are_asked_for_as_they_came(ask_with: Callable[..., Site]) -> None:
    site = ask_with(lambda request: httpx.Response(200, json={"url": str(request.url)}))

    answer = site.ask("GET", "/storage/v1/b/dem%6F/iam/testPermissions?permissions=x&permissions=y")

    assert answer.json()["url"].endswith("/iam/testPermissions?permissions=x&permissions=y")


def test_a_bucket_that_is_not_there_is_not_asked_for(ask_with: Callable[..., Site]) -> None:
    answer = ask_with(refuse).ask("GET", "/storage/v1/b/absent/iam")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"].startswith("bucket 'absent' does not exist; gcloud")


@pytest.mark.parametrize(
    ("bucket", "status"),
    [
        ("artifacts.demo.appspot.com", 200),
        ("eu.artifacts.demo.appspot.com", 200),
        ("us.artifacts.appspot.com", 404),
    ],
)
def test_buckets_of_registries_have_policies_before_they_are_there(
    bucket: str, status: int, ask_with: Callable[..., Site]
) -> None:
    site = ask_with(lambda _: httpx.Response(200))

    assert site.ask("GET", f"/storage/v1/b/{bucket}/iam").status_code == status


def test_a_store_without_a_service_keeps_no_policies(site: Site) -> None:
    answer = site.ask("GET", f"{BUCKET}/iam")

    assert answer.status_code == 501
    assert "--training-url" in answer.json()["error"]["message"]


def test_a_service_that_is_away_is_said_with_the_way_out(ask_with: Callable[..., Site]) -> None:
    answer = ask_with(refuse).ask("GET", f"{BUCKET}/iam")

    error = answer.json()["error"]
    assert (answer.status_code, error["errors"][0]["reason"]) == (503, "backendError")
    assert "http://training.test:1, which keeps" in error["message"]
    assert "connection refused; start it with `make serve`" in error["message"]


def test_parameters_that_cannot_be_passed_on_are_refused(ask_with: Callable[..., Site]) -> None:
    site = ask_with(lambda _: httpx.Response(200), f"http://training.test/{'x' * 65_000}")

    assert site.ask("GET", f"{BUCKET}/iam?x={'y' * 1000}").status_code == 400


def test_a_long_query_in_the_body_of_a_read_is_passed_on(ask_with: Callable[..., Site]) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"permissions": []})

    headers = {"X-HTTP-Method-Override": "GET", "Content-Type": "application/x-www-form-urlencoded"}

    given = ask_with(answer).ask(
        "POST", f"{BUCKET}/iam/testPermissions", content=b"permissions=x", headers=headers
    )

    assert given.status_code == 200
    (request,) = seen
    assert (request.method, request.url.query, request.content) == ("GET", b"permissions=x", b"")
