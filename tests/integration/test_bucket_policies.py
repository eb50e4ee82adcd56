"""The object store passes questions about policies of buckets on to the training service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from google.auth.credentials import AnonymousCredentials

from tests.integration.live_service import LiveService
from tests.support import web
from tests.support.bed.store_thread import CONTAINERS_HOST, store_in_thread
from tests.support.ports import reserve_port

POLICY = "/storage/v1/b/present/iam"
BINDING = {"role": "roles/storage.objectViewer", "members": ["user:ann@example.com"]}


@pytest.fixture
def store(service: LiveService, tmp_path: Path) -> Iterator[httpx.Client]:
    """An object store over the live service, with the bucket ``present``."""
    yield from serve(tmp_path, service.endpoint)


def serve(folder: Path, training_url: str | None) -> Iterator[httpx.Client]:
    with (
        store_in_thread(folder, training_url) as url,
        web.client(base_url=url) as client,
    ):
        client.post("/storage/v1/b", params={"project": "p"}, json={"name": "present"})
        yield client


def test_a_policy_that_is_set_at_the_store_is_held_by_the_service(
    store: httpx.Client, service: LiveService
) -> None:
    etag = store.get(POLICY).json()["etag"]

    written = store.put(POLICY, json={"bindings": [BINDING], "etag": etag})
    again = store.put(POLICY, json={"bindings": [], "etag": etag})

    assert (written.status_code, again.status_code) == (200, 412)
    held = web.get(f"{service.endpoint}{POLICY}").json()
    assert held == written.json()
    assert held["bindings"] == [BINDING]


def test_googles_client_reads_changes_and_tests_a_policy(store: httpx.Client) -> None:
    from google.cloud import storage  # the rules of this checkout keep it from the tops of modules

    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": str(store.base_url).rstrip("/")},
    )
    bucket = client.bucket("present")

    policy = bucket.get_iam_policy(requested_policy_version=3)
    policy.bindings.append({"role": "roles/storage.admin", "members": {"user:bob@example.com"}})
    bucket.set_iam_policy(policy)

    assert "roles/storage.admin" in {binding["role"] for binding in bucket.get_iam_policy().bindings}
    assert bucket.test_iam_permissions(["storage.objects.get"]) == ["storage.objects.get"]
    client.close()


def test_an_unknown_bucket_is_not_found_and_a_registrys_bucket_has_a_policy(store: httpx.Client) -> None:
    absent = store.get("/storage/v1/b/absent/iam")
    registry = store.get("/storage/v1/b/eu.artifacts.demo.appspot.com/iam")

    assert (absent.status_code, absent.json()["error"]["errors"][0]["reason"]) == (404, "notFound")
    assert "bucket 'absent' does not exist" in absent.json()["error"]["message"]
    assert registry.status_code == 200


def test_a_service_that_is_away_is_said_and_the_store_goes_on(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{reserve_port()}"
    for client in serve(tmp_path, url):
        answer = client.put(POLICY, json={"bindings": []})
        other = client.get("/storage/v1/b/present")

    error = answer.json()["error"]
    assert (answer.status_code, error["errors"][0]["reason"]) == (503, "backendError")
    assert f"the training service at {url}" in error["message"]
    assert "make serve" in error["message"]
    assert other.status_code == 200


def test_a_store_without_a_service_says_that_it_keeps_no_policies(tmp_path: Path) -> None:
    for client in serve(tmp_path, None):
        answer = client.get(POLICY)

    assert answer.status_code == 501
    assert "keeps no bucket policies" in answer.json()["error"]["message"]


def test_a_container_reaches_objects_and_no_policies(store: httpx.Client, service: LiveService) -> None:
    """What writes into a bucket must not decide who else may."""
    service.engine.addresses_of_others.add("127.0.0.1")
    with web.client(base_url=f"http://{CONTAINERS_HOST}:{store.base_url.port}") as container:
        assert container.get("/storage/v1/b/present").status_code == 200
        assert container.get(POLICY).status_code == 403
        assert container.put(POLICY, json={"bindings": [BINDING]}).status_code == 403
        assert container.delete("/storage/v1/b/present").status_code == 403
    assert "bindings" not in store.get(POLICY).json()
