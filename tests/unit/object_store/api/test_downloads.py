"""Objects' bytes, ranges of them, and headers that keep browsers from running them."""

from __future__ import annotations

import pytest

from tests.unit.object_store.conftest import BUCKET, Site


@pytest.mark.parametrize(
    ("header", "content", "content_range"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=7-99", b"789", "bytes 7-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
    ],
)
def test_a_range_is_a_part(header: str, content: bytes, content_range: str, site: Site) -> None:
    site.put("a", b"0123456789")

    answer = site.ask("GET", f"/download{BUCKET}/o/a?alt=media", headers={"range": header})

    assert (answer.status_code, answer.content) == (206, content)
    assert answer.headers["content-range"] == content_range
    assert answer.headers["content-length"] == str(len(content))


@pytest.mark.parametrize(
    "header", ["bytes=10-", "bytes=10-12", "bytes=-0", f"bytes={'9' * 19}-", "bytes=5-3"]
)
def test_a_range_behind_the_end_is_416(header: str, site: Site) -> None:
    site.put("a", b"0123456789")

    answer = site.ask("GET", "/demo/a", headers={"range": header})

    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */10")


@pytest.mark.parametrize(
    "header", ["x", "bytes=", "bytes=a-b", "bytes=1-2,4-5", "lines=1-2", "bytes=-", "bytes 1-2"]
)
def test_a_range_that_is_none_is_passed_over(header: str, site: Site) -> None:
    site.put("a", b"0123456789")

    answer = site.ask("GET", "/demo/a", headers={"range": header})

    assert (answer.status_code, answer.content) == (200, b"0123456789")
    assert "content-range" not in answer.headers


def test_head_has_the_headers_alone(site: Site) -> None:
    resource = site.put("a", b"0123456789")

    answer = site.ask("HEAD", "/demo/a")

    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "10")
    assert answer.headers["x-goog-hash"] == f"crc32c={resource['crc32c']},md5={resource['md5Hash']}"
    assert answer.headers["x-goog-generation"] == resource["generation"]
    assert answer.headers["etag"] == f'"{resource["etag"]}"'


@pytest.mark.parametrize(
    ("kind", "disposition"),
    [
        ("text/html", "attachment"),
        ("image/svg+xml", "attachment"),
        ("application/xhtml+xml", "attachment"),
        ("text/plain2", "attachment"),
        ("text/plain; charset=utf-8", "inline"),
        ("IMAGE/PNG", "inline"),
    ],
)
def test_active_content_is_never_shown(kind: str, disposition: str, site: Site) -> None:
    site.put("a", b"<script>", headers={"content-type": kind})
    site.ask("PATCH", f"{BUCKET}/o/a", json={"contentDisposition": "inline"})

    headers = site.ask("GET", "/demo/a").headers

    assert headers["content-disposition"] == disposition
    assert (headers["content-type"], headers["x-content-type-options"]) == (kind, "nosniff")
    assert headers["content-security-policy"].startswith("sandbox")


def test_a_text_that_is_no_header_is_left_out(site: Site) -> None:
    site.put("a", b"x")
    body = {"contentType": "text/\u00e9\u0001", "cacheControl": "👍", "contentLanguage": "de"}
    assert site.ask("PATCH", f"{BUCKET}/o/a", json=body).json()["cacheControl"] == "👍"

    headers = site.ask("GET", "/demo/a").headers

    assert "content-type" not in headers
    assert headers["content-language"] == "de"


def test_generations_and_conditions_count(site: Site) -> None:
    site.ask("PATCH", BUCKET, json={"versioning": {"enabled": True}})
    old = site.put("a", b"old")["generation"]
    new = site.put("a", b"new")["generation"]

    assert site.get("a", params={"generation": old}) == b"old"
    for query, status in (
        (f"ifGenerationMatch={new}", 200),
        (f"ifGenerationMatch={old}", 412),
        (f"ifGenerationNotMatch={new}", 304),
        ("ifMetagenerationNotMatch=1", 304),
        ("generation=1", 404),
        ("generation=x", 400),
    ):
        answer = site.ask("GET", f"{BUCKET}/o/a?alt=media&{query}")
        assert answer.status_code == status, query
        assert bool(answer.content) is (status != 304)


def test_an_empty_object_is_empty(site: Site) -> None:
    site.put("a", b"")

    assert site.get("a") == b""
