"""The application as its clients see it: who is answered, with what status."""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
from ipaddress import ip_interface
from typing import Any

import httpx
import pytest

from tests.unit.object_store.conftest import BUCKET, UPLOAD, MakeSite, Site, files, put, target


def reason_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["errors"][0]["reason"])


def test_more_requests_than_allowed_are_told_to_come_again(make_site: MakeSite) -> None:
    site = make_site(most_requests=0)

    answer = site.ask("GET", BUCKET)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert reason_of(answer) == "rateLimitExceeded"


@pytest.mark.parametrize(
    ("method", "path", "feature"),
    [
        ("POST", "/batch/storage/v1", "batch requests"),
        ("GET", f"{BUCKET}/acl", "access control lists"),
        ("PUT", f"{BUCKET}/o/a%2Fb/acl/allUsers", "access control lists"),
        ("GET", f"{BUCKET}/defaultObjectAcl", "access control lists"),
        ("GET", f"{BUCKET}/o/a/iam", "IAM policies of objects"),
        ("POST", f"{BUCKET}/o/a/restore", "soft delete"),
        ("POST", f"{BUCKET}/o/bulkRestore", "soft delete"),
        ("GET", f"{BUCKET}/notificationConfigs", "notifications"),
        ("POST", f"{BUCKET}/o/watch", "notifications"),
        ("POST", f"{BUCKET}/lockRetentionPolicy", "retention policies"),
        ("POST", f"{BUCKET}/folders", "folders of a namespace"),
        ("POST", f"{BUCKET}/managedFolders", "folders of a namespace"),
        ("GET", "/storage/v1/projects/p/serviceAccount", "HMAC keys"),
        ("GET", f"{BUCKET}/o?softDeleted=true", "soft delete"),
        ("POST", f"{UPLOAD}?name=a&predefinedAcl=publicRead", "access control lists"),
        ("GET", f"{BUCKET}/iam", "--training-url"),
    ],
)
def test_what_is_not_served_is_said_by_name(method: str, path: str, feature: str, site: Site) -> None:
    answer = site.ask(method, path)

    assert answer.status_code == 501
    assert feature in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "header",
    [
        "x-goog-encryption-key",
        "x-goog-if-generation-match",
        "x-goog-copy-source",
        "if-match",
        "if-unmodified-since",
    ],
)
def test_a_header_that_would_be_passed_over_is_refused(header: str, site: Site) -> None:
    answer = site.ask("PUT", "/demo/a", content=b"x", headers={header: "0"})

    assert answer.status_code == 501
    assert files(site.store) == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/storage/v1"),
        ("DELETE", "/storage/v1/b"),
        ("BREW", BUCKET),
        ("GET", "/demo"),
        ("GET", "/storage/v1/b/demo/o/a/b"),
        ("POST", "/health"),
        ("PATCH", "/demo/a"),
        ("GET", "//"),
    ],
)
def test_what_is_no_method_of_the_api_is_not_found(method: str, path: str, site: Site) -> None:
    assert site.ask(method, path).status_code == 404


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_nothing_wipes_the_store(method: str, site: Site) -> None:
    site.put("a", b"kept")

    assert site.ask(method, "/wipe").status_code == 404
    assert site.get("a") == b"kept"


def test_json_of_more_than_a_mebibyte_is_refused(site: Site) -> None:
    body = json.dumps({"name": "big", "labels": {"a": "x" * (1 << 20)}}).encode()

    answer = site.ask("POST", "/storage/v1/b", content=body)

    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"5",
        b"\xff",
        b"[" * 100_000,
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"contentType": "\\ud800"}',
    ],
)
def test_a_body_that_is_no_json_object_changes_nothing(body: bytes, site: Site) -> None:
    before = site.put("a")

    assert site.ask("PATCH", f"{BUCKET}/o/a", content=body).status_code == 400
    assert site.ask("GET", f"{BUCKET}/o/a").json() == before


def test_containers_touch_no_bucket_and_no_policy(make_site: MakeSite) -> None:
    site = make_site(containers_host="localhost")
    site.store.create_bucket("demo", {})

    for method, path in (
        ("POST", "/storage/v1/b"),
        ("PATCH", BUCKET),
        ("PUT", BUCKET),
        ("DELETE", BUCKET),
        ("GET", f"{BUCKET}/iam"),
        ("PUT", f"{BUCKET}/iam"),
        ("GET", "/storage/v1/b/dem%6F/iam/testPermissions"),
    ):
        answer = site.ask(method, path, json={})
        assert (answer.status_code, reason_of(answer)) == (403, "forbidden"), path
    override = {"x-http-method-override": "DELETE"}
    assert site.ask("POST", BUCKET, headers=override).status_code == 403
    assert site.ask("GET", BUCKET).status_code == 200
    site.put("a", b"x")


@pytest.mark.parametrize(
    ("address", "status"), [("172.30.99.7", 200), ("172.17.0.2", 403), ("127.0.0.1", 403)]
)
def test_who_comes_from_outside_of_the_clients_network_is_a_container(
    address: str, status: int, make_site: MakeSite
) -> None:
    site = make_site(clients=ip_interface("172.30.99.1/24"), host="172.30.99.1", address=address)
    site.store.create_bucket("demo", {})

    assert site.ask("GET", f"{BUCKET}").status_code == 200
    assert site.ask("PATCH", BUCKET, json={}).status_code == status


def test_below_the_floor_nothing_is_written_and_all_is_read(make_site: MakeSite) -> None:
    before = make_site()
    before.store.create_bucket("demo", {})
    before.put("a", b"kept")
    site = make_site(floor_bytes=1 << 60)
    multipart = {"content-type": "multipart/related; boundary=b"}
    body = b'--b\r\n\r\n{"name": "n"}\r\n--b\r\n\r\nx\r\n--b--'

    answers = [
        site.ask("POST", f"{UPLOAD}?uploadType=media&name=n", content=b"x"),
        site.ask("POST", f"{UPLOAD}?uploadType=multipart", content=body, headers=multipart),
        site.ask("POST", f"{UPLOAD}?uploadType=resumable&name=n"),
        site.ask("PUT", "/demo/n", content=b"x"),
        site.ask("POST", "/demo/n?uploads"),
        site.ask("POST", f"{BUCKET}/o/n/compose", json={"sourceObjects": [{"name": "a"}]}),
    ]

    assert {(answer.status_code, reason_of(answer)) for answer in answers} == {(507, "insufficientStorage")}
    assert (site.get("a"), len(files(site.store))) == (b"kept", 1)
    assert site.ask("GET", f"{BUCKET}/o").json()["items"][0]["name"] == "a"
    health = site.ask("GET", "/health")
    assert (health.status_code, health.json()["status"]) == (503, "unwell")
    assert site.ask("DELETE", f"{BUCKET}/o/a").status_code == 204


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OSError(errno.ENOSPC, "full"), 507),
        (OSError(errno.EIO, "input/output error"), 503),
        (sqlite3.OperationalError("locked"), 503),
        (LookupError("a mistake"), 500),
    ],
)
def test_a_failing_disk_is_told_from_a_mistake(
    error: Exception, status: int, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(site.store.catalog, "change", fail)

    assert site.ask("PATCH", BUCKET, json={}).status_code == status


def test_a_folder_that_is_lost_is_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise FileNotFoundError("the folder")

    monkeypatch.setattr(site.store, "page", fail)
    monkeypatch.setattr(site.store.contents, "free_bytes", fail)

    assert site.ask("GET", f"{BUCKET}/o").status_code == 503
    assert site.ask("GET", "/health").status_code == 503


def test_a_wrong_selection_is_refused_before_anything_is_done(site: Site) -> None:
    answer = site.ask("POST", UPLOAD, params={"name": "a", "fields": "a("}, content=b"x")

    assert answer.status_code == 400
    assert files(site.store) == []


def test_a_post_may_stand_for_another_method(site: Site) -> None:
    site.put("a", b"x", headers={"content-type": "text/x"})

    def override(method: str, sent_as: str = "POST") -> httpx.Response:
        headers = {"x-http-method-override": method}
        return site.ask(sent_as, f"{BUCKET}/o/a", json={"cacheControl": "c"}, headers=headers)

    assert override("PATCH").json()["contentType"] == "text/x"
    assert "contentType" not in override("PUT").json()
    assert override("DELETE", "GET").status_code == 200
    assert override("GET", "PATCH").json()["cacheControl"] == "c"
    assert override("BREW").status_code == 404
    assert override("DELETE").status_code == 204


def test_a_client_that_goes_away_leaves_no_file(site: Site) -> None:
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": UPLOAD,
        "raw_path": UPLOAD.encode(),
        "query_string": b"name=a",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: Any) -> None:
        raise AssertionError(message)

    site.runner.run(site.app(scope, receive, send))

    assert files(site.store) == []
    assert 'code="499"' in site.ask("GET", "/metrics").text


def test_requests_side_by_side_do_not_disturb_each_other(site: Site) -> None:
    async def write_all() -> list[httpx.Response]:
        return await asyncio.gather(
            *(
                site._client.post(UPLOAD, params={"name": f"n{number % 5}"}, content=bytes([number]) * 1000)
                for number in range(40)
            )
        )

    answers = site.runner.run(write_all())

    assert {answer.status_code for answer in answers} == {200}
    last = {
        answer.json()["name"]: answer for answer in sorted(answers, key=lambda a: int(a.json()["generation"]))
    }
    for name, answer in last.items():
        assert site.ask("GET", f"{BUCKET}/o/{name}").json()["md5Hash"] == answer.json()["md5Hash"]
    assert len(files(site.store)) == 5


def test_no_name_leads_out_of_the_folder(site: Site) -> None:
    put(site.store, target("../../x"), b"inside")

    assert site.get("..%2F..%2Fx") == b"inside"
    assert sorted(path.name for path in site.root.parent.iterdir()) == ["store"]
