"""Policies of buckets: which requests ask for one, and whom the store asks."""

from __future__ import annotations

import json

import httpx
import pytest

from local_stack.object_store.bucket_policies import BucketPolicies, bucket_of_policy


@pytest.mark.parametrize(
    ("target", "bucket"),
    [
        ("/storage/v1/b/present/iam", "present"),
        ("/b/present/iam?alt=json", "present"),
        ("/storage/v1/b/a%2Db/iam/testPermissions?permissions=x", "a-b"),
        ("/storage/v1/b/present", None),
        ("/storage/v1/b/present/o/iam", None),
        ("/download/storage/v1/b/present/iam", None),
        ("/storage/v1/b/present/iam/", None),
    ],
)
def test_requests_for_policies_are_told_from_others(target: str, bucket: str | None) -> None:
    assert bucket_of_policy(target) == bucket


def test_the_callers_token_goes_along_and_its_cookies_do_not() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(403, json={"error": {"code": 403}})

    policies = BucketPolicies("http://training.test:1/", httpx.MockTransport(answer))
    headers = {"Authorization": "Bearer t", "Cookie": "c=1", "Content-Type": "application/json"}

    status, body = policies.answer("PUT", "/b/present/iam?alt=json", headers, b"{}", {"present"})

    assert (status, json.loads(body)) == (403, {"error": {"code": 403}})
    policies.close()
    (request,) = seen
    assert str(request.url) == "http://training.test:1/storage/v1/b/present/iam?alt=json"
    assert request.headers["Authorization"] == "Bearer t"
    assert "Cookie" not in request.headers


def ask(policies: BucketPolicies, target: str) -> tuple[int, str, str]:
    """Return status, reason and message of an error."""
    status, body = policies.answer("GET", target, {}, b"", {"present"})
    policies.close()
    error = json.loads(body)["error"]
    return status, error["errors"][0]["reason"], error["message"]


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def test_a_bucket_that_is_not_there_is_not_asked_for() -> None:
    policies = BucketPolicies("http://training.test", httpx.MockTransport(refuse))

    assert ask(policies, "/b/absent/iam") == (
        404,
        "notFound",
        "bucket 'absent' does not exist; gcloud storage buckets create makes it",
    )


@pytest.mark.parametrize(
    ("bucket", "is_asked_for"),
    [
        ("present", True),
        ("artifacts.demo.appspot.com", True),
        ("eu.artifacts.demo.appspot.com", True),
        ("us.artifacts.appspot.com", False),
        ("mars.artifacts.demo.appspot.com", False),
    ],
)
def test_buckets_of_registries_have_policies_before_they_are_there(bucket: str, is_asked_for: bool) -> None:
    policies = BucketPolicies("http://training.test", httpx.MockTransport(lambda _: httpx.Response(200)))

    status, _ = policies.answer("GET", f"/b/{bucket}/iam", {}, b"", {"present"})
    policies.close()

    assert status == (200 if is_asked_for else 404)


def test_a_store_without_a_service_keeps_no_policies() -> None:
    status, reason, message = ask(BucketPolicies(None), "/b/present/iam")

    assert (status, reason) == (501, "notImplemented")
    assert "--training-url" in message


def test_a_service_that_is_away_is_said_with_the_way_out() -> None:
    policies = BucketPolicies("http://training.test/", httpx.MockTransport(refuse))

    status, reason, message = ask(policies, "/b/present/iam")

    assert (status, reason) == (503, "backendError")
    assert "http://training.test, which keeps" in message
    assert "connection refused; start it with `make serve`" in message


def test_another_request_is_a_mistake_of_the_caller() -> None:
    policies = BucketPolicies(None)

    with pytest.raises(ValueError, match="no request for a bucket's policy"):
        policies.answer("GET", "/b/present/o", {}, b"", {"present"})
    policies.close()
