"""The bytes of new objects: media, multipart and resumable uploads."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.object_store.conftest import BUCKET, UPLOAD, MakeSite, Site, files

PARTS = {"uploadType": "multipart"}


def multipart(media: bytes, line: bytes = b"\r\n", json: bytes = b'{"name": "m"}') -> bytes:
    """Return a body with the boundary ``==b==``."""
    lines = [
        b"--==b==",
        b"Content-Type: application/json",
        b"",
        json,
        b"--==b==",
        b"content-type: text/x",
        b"",
        media,
        b"--==b==--",
    ]
    return line.join(lines)


def send(site: Site, body: Any, boundary: str = "'==b=='", **options: Any) -> httpx.Response:
    headers = {"content-type": f"multipart/related; boundary={boundary}"}
    return site.ask("POST", UPLOAD, params=PARTS, content=body, headers=headers, **options)


def begin(site: Site, name: str = "r", **options: Any) -> str:
    """Return path and query of a new resumable upload."""
    params = {"uploadType": "resumable", "name": name, **options.pop("params", {})}
    answer = site.ask("POST", UPLOAD, params=params, **options)
    assert answer.status_code == 200, answer.text
    return answer.headers["location"].removeprefix("http://localhost:9023")


def go_on(site: Site, path: str, content: bytes, content_range: str | None) -> httpx.Response:
    headers = {} if content_range is None else {"content-range": content_range}
    return site.ask("PUT", path, content=content, headers=headers)


def md5_of(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


async def pieces(body: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    for begin, end in itertools.pairwise(places):
        yield body[begin:end]


def test_media_of_json_are_bytes_like_others(site: Site) -> None:
    resource = site.put("a", b'{"x": 1}', headers={"content-type": "application/json"})

    assert (site.get("a"), resource["contentType"]) == (b'{"x": 1}', "application/json")
    assert (resource["size"], resource["md5Hash"]) == ("8", md5_of(b'{"x": 1}'))
    assert site.put("b", b"")["contentType"] == "application/octet-stream"


@pytest.mark.parametrize("line", [b"\n", b"\r\n"])
@pytest.mark.parametrize("boundary", ["'==b=='", '"==b=="', "==b==", '"==b=="; x=y'])
@pytest.mark.parametrize(
    "media",
    [
        b"",
        b"x",
        b"\r",
        b"\n",
        b"\r\n",
        b"--",
        b"a\r\n--==b=\r\n--==b==x\n\n--==b==",
        b"\n--==b== --\r",
        b"\0" * 99,
    ],
)
def test_a_multipart_upload_has_just_its_media(line: bytes, boundary: str, media: bytes, site: Site) -> None:
    answer = send(site, multipart(media, line), boundary)

    assert answer.status_code == 200, answer.text
    assert (site.get("m"), answer.json()["contentType"]) == (media, "text/x")


@given(
    media=st.one_of(st.binary(max_size=60), st.text("\r\n-=b", max_size=30).map(str.encode)),
    line=st.sampled_from([b"\n", b"\r\n"]),
    cuts=st.lists(st.integers(0, 500), max_size=12),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_does_not_matter_how_a_body_is_split(
    site: Site, media: bytes, line: bytes, cuts: list[int]
) -> None:
    assert send(site, pieces(multipart(media, line), cuts)).status_code == 200
    assert site.get("m") == media


def test_a_body_may_come_byte_by_byte(site: Site) -> None:
    body = multipart(b"some\r\nmedia\r")

    assert send(site, pieces(body, list(range(len(body))))).status_code == 200
    assert site.get("m") == b"some\r\nmedia\r"


def test_a_long_upload_comes_in_many_pieces(site: Site) -> None:
    media = bytes(range(256)) * 20_000

    assert send(site, pieces(multipart(media), list(range(0, 5_000_000, 65_536)))).status_code == 200
    assert site.get("m") == media


@pytest.mark.parametrize(
    ("body", "boundary"),
    [
        (b"", "b"),
        (b"no mark at all", "b"),
        (multipart(b"x")[:-2], "==b=="),
        (multipart(b"x")[:-9], "==b=="),
        (multipart(b"x") + b"more", "==b=="),
        (b"--b\r\n\r\n{}\r\n--b--", "b"),
        (b"--b\r\n\r\n{}\r\n--b--\r\n\r\n", "b"),
        (b'--b\r\n\r\n{"name": "m"}', "b"),
        (multipart(b"x", json=b"{"), "==b=="),
        (multipart(b"x", json=b"[]"), "==b=="),
        (multipart(b"x", json=b"{}"), "==b=="),
        (multipart(b"x", json=b'{"name": 5}'), "==b=="),
        (multipart(b"x", json=b'{"name": "\\ud800"}'), "==b=="),
        (multipart(b"x", json=b'{"name": "m", "metadata": {"\\udc00": "x"}}'), "==b=="),
        (multipart(b"x", json=b'{"name": "m", "md5Hash": "AAAA"}'), "==b=="),
        (multipart(b"x"), ""),
        (b"--b" + b"x" * 3_000_000, "b"),
    ],
)
def test_a_multipart_body_that_is_not_whole_is_refused(body: bytes, boundary: str, site: Site) -> None:
    assert send(site, body, boundary).status_code == 400
    assert files(site.store) == []


def test_media_without_a_type_have_none_of_the_requests(site: Site) -> None:
    body = b'--b\n\n{"name": "m"}\n--b\n\nx\n--b--'

    assert send(site, body, "b").json()["contentType"] == "application/octet-stream"


def test_fields_of_the_resource_and_the_parameters_count(site: Site) -> None:
    json = b'{"name": "m", "contentType": "a/b", "metadata": {"k": "v"}, "crc32c": "AAAAAA=="}'

    resource = send(site, multipart(b"", json=json)).json()

    assert (resource["contentType"], resource["metadata"]) == ("a/b", {"k": "v"})
    encoded = site.put("a", b"x", params={"contentEncoding": "gzip"})
    assert encoded["contentEncoding"] == "gzip"


@pytest.mark.parametrize(
    "headers", [{"x-goog-hash": "crc32c=AAAAAA=="}, {"content-md5": "AAAA"}, {"x-goog-hash": "a=b,md5=AA=="}]
)
def test_a_hash_in_a_header_counts(headers: dict[str, str], site: Site) -> None:
    answer = site.ask("POST", UPLOAD, params={"name": "a"}, content=b"x", headers=headers)

    assert answer.status_code == 400
    assert files(site.store) == []


@pytest.mark.parametrize("kind", ["media", "multipart", "resumable"])
def test_a_condition_that_does_not_hold_is_412_and_leaves_nothing(kind: str, site: Site) -> None:
    site.put("m", b"first")
    params = {"uploadType": kind, "name": "m", "ifGenerationMatch": "0"}
    headers = {"content-type": "multipart/related; boundary===b=="}

    answer = site.ask("POST", UPLOAD, params=params, content=multipart(b"x"), headers=headers)
    if kind == "resumable":
        answer = site.ask("POST", UPLOAD, params=params)

    assert (answer.status_code, len(files(site.store))) == (412, 1)


@pytest.mark.parametrize("params", [{}, {"name": ""}, {"uploadType": "x", "name": "a"}, {"name": "."}])
def test_an_upload_needs_a_name_and_a_kind(params: dict[str, str], site: Site) -> None:
    assert site.ask("POST", UPLOAD, params=params, content=b"x").status_code == 400


def test_a_resumable_upload_goes_on_where_it_stopped(site: Site) -> None:
    path = begin(site, headers={"x-upload-content-type": "text/x"})

    assert go_on(site, path, b"", "bytes */*").headers.get("range") is None
    first = go_on(site, path, b"hello ", "bytes 0-5/*")
    assert (first.status_code, first.headers["range"]) == (308, "bytes=0-5")
    assert go_on(site, path, b"", "bytes */11").headers["range"] == "bytes=0-5"
    overlapping = go_on(site, path, b"lo wor", "bytes 3-8/11")
    assert (overlapping.status_code, overlapping.headers["range"]) == (308, "bytes=0-8")
    gap = go_on(site, path, b"d", "bytes 10-10/11")
    assert (gap.status_code, gap.headers["retry-after"]) == (503, "1")

    done = go_on(site, path, b"ld", "bytes 9-10/11")
    repeated = go_on(site, path, b"ld", "bytes 9-10/11")
    asked = go_on(site, path, b"", "bytes */11")

    assert done.status_code == 200
    assert done.json() == repeated.json() == asked.json()
    assert (done.json()["contentType"], done.json()["md5Hash"]) == ("text/x", md5_of(b"hello world"))
    assert (site.get("r"), len(files(site.store))) == (b"hello world", 1)


def test_an_upload_of_unknown_length_ends_when_it_is_said(site: Site) -> None:
    path = begin(site)

    assert go_on(site, path, b"abc", "bytes 0-2/*").status_code == 308
    assert go_on(site, path, b"", "bytes */3").status_code == 200
    assert site.get("r") == b"abc"


@pytest.mark.parametrize("content", [b"", b"whole"])
def test_one_request_may_bring_all(content: bytes, site: Site) -> None:
    assert go_on(site, f"/resumable{begin(site)}", content, None).status_code == 200
    assert site.get("r") == content


def test_a_new_process_goes_on_with_a_half_upload(site: Site, make_site: MakeSite) -> None:
    path = begin(site)
    go_on(site, path, b"hello ", "bytes 0-5/11")
    site.store.close()
    again = make_site()

    assert go_on(again, path, b"", "bytes */11").headers["range"] == "bytes=0-5"
    assert go_on(again, path, b"world", "bytes 6-10/11").json()["md5Hash"] == md5_of(b"hello world")


def test_a_wrong_hash_ends_a_resumable_upload(site: Site) -> None:
    path = begin(site, json={"md5Hash": "AAAA"})

    assert go_on(site, path, b"x", "bytes 0-0/1").status_code == 400
    assert go_on(site, path, b"x", "bytes 0-0/1").status_code == 404
    assert files(site.store) == []


@pytest.mark.parametrize(
    "text", ["", "bytes", "bytes 0-1", "bytes a-b/c", "items 0-1/2", "bytes 1/2", "bytes -1-1/2"]
)
def test_a_content_range_that_is_none_is_refused(text: str, site: Site) -> None:
    assert go_on(site, begin(site), b"x", text).status_code == 400


def test_more_bytes_than_were_said_are_refused(site: Site) -> None:
    assert go_on(site, begin(site), b"xyz", "bytes 0-1/2").status_code == 400


def test_a_cancelled_upload_is_gone(site: Site) -> None:
    path = begin(site)
    go_on(site, path, b"x", "bytes 0-0/*")

    assert site.ask("DELETE", path).status_code == 499
    assert site.ask("DELETE", path).status_code == 404
    assert go_on(site, path, b"", "bytes */*").status_code == 404
    assert site.ask("PUT", f"{UPLOAD}?upload_id=..%2Fcatalog.db").status_code == 404
    assert files(site.store) == []


def test_the_last_request_tells_of_a_condition_that_holds_no_more(site: Site) -> None:
    path = begin(site, params={"ifGenerationMatch": "0"})
    site.put("r", b"of another")

    assert go_on(site, path, b"x", "bytes 0-0/1").status_code == 412
    assert (site.get("r"), len(files(site.store))) == (b"of another", 1)


def test_no_bucket_no_upload(site: Site) -> None:
    for kind in ("media", "resumable"):
        params = {"uploadType": kind, "name": "a"}
        assert site.ask("POST", UPLOAD.replace("demo", "absent"), params=params).status_code == 404
    assert site.ask("GET", f"{BUCKET}/o").json() == {"kind": "storage#objects"}
