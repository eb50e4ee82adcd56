"""Objects by path, and uploads in parts."""

from __future__ import annotations

import re

import pytest

from tests.unit.object_store.conftest import BUCKET, Site, files


def begin(site: Site, path: str = "/demo/a%20b", **options: object) -> str:
    """Return the key of a new upload in parts."""
    answer = site.ask("POST", f"{path}?uploads", **options)
    assert answer.headers["content-type"] == "application/xml"
    found = re.search(r"<UploadId>(\w+)</UploadId>", answer.text)
    assert found
    return found[1]


def complete(site: Site, key: str, etags: dict[int, str]) -> int:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in etags.items()
    )
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    return site.ask("POST", f"/demo/a%20b?uploadId={key}", content=body).status_code


def test_an_object_is_written_read_and_deleted_by_its_path(site: Site) -> None:
    headers = {"content-type": "text/x", "x-goog-meta-key": "value", "cache-control": "no-store"}

    put = site.ask("PUT", "/demo/folder/a%2Fb", content=b"bytes", headers=headers)

    assert put.status_code == 200
    assert site.ask("GET", "/demo/folder/a/b").content == b"bytes"
    resource = site.ask("GET", f"{BUCKET}/o/folder%2Fa%2Fb").json()
    assert (resource["contentType"], resource["metadata"]) == ("text/x", {"key": "value"})
    assert resource["generation"] == put.headers["x-goog-generation"]
    assert site.ask("DELETE", "/demo/folder/a/b").status_code == 204
    assert site.ask("GET", "/demo/folder/a/b").status_code == 404


def test_parts_become_an_object(site: Site) -> None:
    key = begin(site, headers={"content-type": "text/x", "x-goog-meta-k": "v"})
    etags = {
        number: site.ask("PUT", f"/demo/a%20b?uploadId={key}&partNumber={number}", content=content).headers[
            "etag"
        ]
        for number, content in ((2, b"two"), (1, b"one"))
    }

    assert complete(site, key, etags) == 200
    assert complete(site, key, etags) == 200
    assert site.get("a%20b") == b"onetwo"
    resource = site.ask("GET", f"{BUCKET}/o/a%20b").json()
    assert (resource["contentType"], resource["metadata"], resource["componentCount"]) == (
        "text/x",
        {"k": "v"},
        2,
    )
    assert len(files(site.store)) == 1


def test_a_part_with_a_wrong_hash_or_number_is_refused_and_leaves_no_file(site: Site) -> None:
    path = f"/demo/a%20b?uploadId={begin(site)}"

    wrong = site.ask("PUT", f"{path}&partNumber=1", content=b"x", headers={"content-md5": "AAAA"})
    statuses = [
        site.ask("PUT", f"{path}&partNumber={number}").status_code for number in ("", "x", "0", "10001")
    ]

    assert (wrong.status_code, statuses, files(site.store)) == (400, [400] * 4, [])


def test_parts_that_were_not_sent_are_refused(site: Site) -> None:
    key = begin(site)

    assert complete(site, key, {}) == 400
    assert complete(site, key, {1: "A" * 22 + "=="}) == 400
    assert complete(site, "x", {1: "A" * 22 + "=="}) == 404


def test_an_upload_in_parts_is_cancelled(site: Site) -> None:
    key = begin(site)
    site.ask("PUT", f"/demo/a%20b?uploadId={key}&partNumber=1", content=b"x")

    assert site.ask("DELETE", f"/demo/a%20b?uploadId={key}").status_code == 204
    assert files(site.store) == []


@pytest.mark.parametrize("path", ["/demo/a", "/demo/a?other"])
def test_another_post_to_an_object_is_refused(path: str, site: Site) -> None:
    assert site.ask("POST", path).status_code == 400


def test_names_are_escaped(site: Site) -> None:
    answer = site.ask("POST", "/demo/%3Ca%26%3E?uploads")

    assert "<Key>&lt;a&amp;&gt;</Key>" in answer.text
