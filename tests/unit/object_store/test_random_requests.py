"""Random requests: none makes the store fail, and none leads out of its folder."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

from object_store.errors import NotFound
from tests.unit.object_store.conftest import MakeSite

REQUESTS = 1500
METHODS = ["GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]
#: Beginnings that lead somewhere, and pieces that are put after them.
BEGINNINGS = [
    "/storage/v1/b",
    "/storage/v1/b/demo",
    "/storage/v1/b/demo/o",
    "/storage/v1/b/demo/o/a",
    "/storage/v1/b/demo/o/a/copyTo/b/demo/o",
    "/storage/v1/b/demo/o/a/rewriteTo/b/demo/o",
    "/storage/v1/b/demo/o/a/moveTo/o",
    "/storage/v1/b/demo/o/j/compose",
    "/download/storage/v1/b/demo/o",
    "/upload/storage/v1/b/demo/o",
    "/upload/storage/v1/b/demo/o",
    "/resumable/upload/storage/v1/b/demo/o",
    "/demo",
    "/health",
    "",
]
PIECES = ["a", "b%2Fc", "%00", "%ff", "%", "%2", "..", "%2e%2e%2f", ".", "é", "👍", "%F0%9F%91%8D", "%0d%0a"]
PIECES += ["o", "acl", "iam", "demo", "x" * 1100, "%ed%a0%80", "compose", ";", "a b", "\\", "catalog.db", ""]
NAMES = [
    "name",
    "prefix",
    "delimiter",
    "pageToken",
    "maxResults",
    "startOffset",
    "endOffset",
    "versions",
    "alt",
]
NAMES += [
    "matchGlob",
    "fields",
    "generation",
    "sourceGeneration",
    "uploadType",
    "upload_id",
    "uploadId",
    "uploads",
]
NAMES += [
    "partNumber",
    "ifGenerationMatch",
    "ifMetagenerationNotMatch",
    "ifSourceGenerationMatch",
    "predefinedAcl",
]
VALUES = [
    "",
    "0",
    "1",
    "a",
    "b/c",
    "-1",
    str(2**63),
    "9" * 400,
    "true",
    "media",
    "multipart",
    "resumable",
    "*",
    "**",
]
VALUES += [
    "{a,b",
    "[",
    "items(name)",
    "a((",
    "\x00",
    "\r\n",
    "é",
    "👍",
    "\U0010ffff",
    "../../x",
    "json",
    "W10=",
]
HEADERS = {
    "range": ["bytes=0-1", "bytes=-0", "bytes=5-", "x", "bytes=\xb2-"],
    "content-range": ["bytes 0-3/4", "bytes */*", "bytes 0-3/*", "x", f"bytes {'9' * 19}-1/{'9' * 19}"],
    "content-type": [
        "multipart/related; boundary=b",
        "multipart/related; boundary='",
        "text/html",
        "\xe9",
        "",
    ],
    "x-http-method-override": ["PUT", "PATCH", "DELETE", "BREW", "HEAD"],
    "x-upload-content-type": ["text/x", "\xff"],
    "x-goog-hash": ["md5=AAAA", "crc32c=", "crc32c=AAAAAA==,md5=1B2M2Y8AsgTpgAmy7PhCfg=="],
    "x-goog-meta-k": ["v", "\xe9", "x" * 9000],
    "x-goog-custom-time": ["2026-01-01T00:00:00Z", "x"],
    "host": ["[::1]"],
}
BODIES = [
    b"",
    b"x",
    b"\x00" * 5000,
    b"{}",
    b"[]",
    b"{",
    b'{"name": "a"}',
    b'{"name": "new-bucket"}',
    b'{"name": "\\ud800", "metadata": {"\\udc00": "x"}}',
    b'{"contentType": "\\udfff"}',
    b'{"metadata": {"a": NaN}, "versioning": {"enabled": 1e999}}',
    b'{"versioning": {"enabled": true}}',
    b'{"versioning": {"enabled": {"a": [[[]]]}}, "labels": {"a": "\\u0000"}}',
    b'{"labels": [], "location": 5}',
    b'{"sourceObjects": [{"name": "a"}, {"name": "a"}]}',
    b'{"sourceObjects": [{"name": "\\ud800"}]}',
    b'{"sourceObjects": [{"name": "a", "generation": 99999999999999999999}]}',
    b'{"contentType": "text/html\\u0000", "customTime": "0001-01-01T00:00:00+23:59"}',
    b'--b\r\n\r\n{"name": "a"}\r\n--b\r\n\r\nx\r\n--b--',
    b"--b\n\n{}\n--b\n\n--b--",
    b"--b--\n\n--b--",
    b"<Part><PartNumber>1</PartNumber><ETag>1B2M2Y8AsgTpgAmy7PhCfg==</ETag></Part>",
    b"[" * 50_000,
]


def request_of(chance: random.Random, keys: list[str]) -> tuple[str, str, dict[str, Any]]:
    """Return method, path and options of a request."""
    pieces = [chance.choice(PIECES) for _ in range(chance.choice([0, 0, 0, 1, 1, 2, 3]))]
    path = "/".join([chance.choice(BEGINNINGS), *pieces]) or "/"
    params = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.choice([0, 0, 1, 1, 2, 4]))}
    if keys and chance.random() < 0.3:
        params[chance.choice(["upload_id", "uploadId"])] = chance.choice(keys)
    headers = [
        (name.encode(), chance.choice(HEADERS[name]).encode("latin-1"))
        for name in chance.sample(sorted(HEADERS), chance.choice([0, 0, 0, 1, 1, 2]))
    ]
    options = {"params": params, "headers": headers, "content": chance.choice(BODIES)}
    if keys and chance.random() < 0.15:
        headers.append((b"content-range", chance.choice(HEADERS["content-range"]).encode()))
        at = chance.choice(["/demo/a?partNumber=1&uploadId=", "/upload/storage/v1/b/demo/o?upload_id="])
        return (
            chance.choice(["PUT", "PUT", "POST", "DELETE"]),
            at + chance.choice(keys),
            {**options, "params": None},
        )
    return chance.choice(METHODS), path, options


@pytest.mark.extended
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_request_makes_the_store_fail(seed: int, make_site: MakeSite) -> None:
    site = make_site()
    chance = random.Random(seed)
    keys: list[str] = []
    statuses: set[int] = set()

    for number in range(REQUESTS):
        if number % 20 == 0:
            # Most random ways to begin one fail.
            fresh = site.ask("POST", "/upload/storage/v1/b/demo/o?uploadType=resumable&name=a")
            keys = [*keys[-5:], fresh.headers.get("x-guploader-uploadid", "")]
        try:
            site.store.bucket("demo")
        except NotFound:
            site.store.create_bucket("demo", {})
        method, path, options = request_of(chance, keys)
        try:
            answer = site.ask(method, path, **options)
        except httpx.InvalidURL:
            continue
        statuses.add(answer.status_code)
        assert answer.status_code < 500 or answer.status_code in (501, 503), (
            method,
            path,
            options,
            answer.text,
        )
        if answer.status_code == 503:
            assert "missing; ask what is here" in answer.text, (method, path, options, answer.text)
        if key := answer.headers.get("x-guploader-uploadid"):
            keys.append(key)
        elif "<UploadId>" in answer.text:
            keys.append(answer.text.partition("<UploadId>")[2].partition("<")[0])

    assert {200, 204, 308, 400, 404, 499, 501} <= statuses
    assert site.ask("GET", "/health").status_code == 200
    assert site.ask("GET", "/storage/v1/b/demo/o").status_code == 200
    assert [path.name for path in site.root.parent.iterdir()] == ["store"]
    names = {path.name for path in site.root.iterdir()}
    assert names == {"catalog.db", "catalog.db-shm", "catalog.db-wal", "contents", "uploads"}
    with site.store.catalog.reading() as connection:
        named = {key for (key,) in connection.execute("SELECT key FROM objects")}
    assert {key for folder, key in site.store.contents.files() if folder == "contents"} == named
