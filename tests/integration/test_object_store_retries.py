"""
google-cloud-storage over a bad network ends with whole objects, and none is doubled.

The cases are those of Cloud Storage's conformance tests for retries
(https://github.com/googleapis/conformance-tests/tree/main/storage/v1, 2026-11-20), made by a proxy.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import io
import os
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import google_crc32c
import httpx
import pytest
from google.api_core.exceptions import RetryError, ServiceUnavailable
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage  # noqa: TID253  # what is tested
from google.cloud.storage.retry import DEFAULT_RETRY  # noqa: TID253  # the same
from requests.exceptions import ConnectionError as RequestsConnectionError

from tests.support import web
from tests.support.bed.http_faults import Harm, HttpFaults, Rule
from tests.support.waiting import wait_until

_CHUNK = 256 * 1024
_BYTES = os.urandom(3 * _CHUNK + 4321)
_QUICK = DEFAULT_RETRY.with_delay(initial=0.05, maximum=0.2).with_timeout(60)
_UPLOAD, _RESUME = "POST /upload", "PUT /upload"


#: The client leaves the connection of a download that was refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")


@pytest.fixture
def proxy(store_url: str) -> Iterator[HttpFaults]:
    port = urlsplit(store_url).port
    assert port is not None
    with HttpFaults(port) as proxy:
        yield proxy


@pytest.fixture
def bucket(proxy: HttpFaults) -> Iterator[storage.Bucket]:
    """A bucket that keeps versions, so that doubles are seen; its client uses the proxy."""
    client = storage.Client(
        project="demo-project",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": proxy.url},
    )
    bucket = client.bucket(f"b-{uuid.uuid4().hex[:12]}")
    bucket.versioning_enabled = True
    try:
        yield client.create_bucket(bucket)
    finally:
        client._http.close()
        client.close()
        gc.collect()


def generations(bucket: storage.Bucket, name: str) -> int:
    return len(list(bucket.list_blobs(prefix=name, versions=True)))


def assert_whole(bucket: storage.Bucket, name: str, expected: bytes) -> None:
    """One generation, with the bytes and their hashes."""
    assert generations(bucket, name) == 1
    stored = bucket.get_blob(name)
    assert stored.download_as_bytes() == expected
    md5 = hashlib.md5(expected, usedforsecurity=False).digest()
    assert stored.md5_hash == base64.b64encode(md5).decode()
    assert stored.crc32c == base64.b64encode(google_crc32c.Checksum(expected).digest()).decode()


@pytest.mark.parametrize(
    ("start", "do"),
    [
        ("GET /storage/v1/b/", lambda bucket: bucket.reload(retry=_QUICK)),
        ("GET /storage/v1/b/", lambda bucket: list(bucket.list_blobs(retry=_QUICK))),
        ("GET /storage/v1/b/", lambda bucket: bucket.get_blob("present", retry=_QUICK).size),
        ("GET /download", lambda bucket: bucket.blob("present").download_as_bytes(retry=_QUICK)),
        (
            "POST /storage/v1/b/",
            lambda bucket: bucket.copy_blob(
                bucket.blob("present"), bucket, "copy", if_generation_match=0, retry=_QUICK
            ),
        ),
        (
            "POST /storage/v1/b/",
            lambda bucket: bucket.blob("joined").compose(
                [bucket.blob("present")], if_generation_match=0, retry=_QUICK
            ),
        ),
        (
            "PATCH /storage/v1/b/",
            lambda bucket: bucket.blob("present").patch(if_metageneration_match=1, retry=_QUICK),
        ),
        (
            "DELETE /storage/v1/b/",
            lambda bucket: bucket.delete_blob(
                "present", if_generation_match=bucket.get_blob("present").generation, retry=_QUICK
            ),
        ),
    ],
    ids=["buckets.get", "objects.list", "objects.get", "media", "rewrite", "compose", "patch", "delete"],
)
def test_what_may_be_repeated_is_until_it_is_served(
    proxy: HttpFaults, bucket: storage.Bucket, start: str, do: object
) -> None:
    bucket.blob("present").upload_from_string("present")
    before = len(proxy.seen)
    rule = Rule(Harm.REFUSE, start, times=2)
    proxy.harm(rule)

    assert callable(do)
    do(bucket)

    assert rule.times == 0
    assert len([line for line in proxy.seen[before:] if line.startswith(start)]) >= 3


@pytest.mark.parametrize("harm", [Harm.REFUSE, Harm.CUT_ANSWER])
def test_an_insert_with_a_precondition_is_repeated_and_stored_once(
    proxy: HttpFaults, bucket: storage.Bucket, harm: Harm
) -> None:
    """An answer that is lost ends in the precondition's failure, as in the cloud."""
    proxy.harm(Rule(harm, _UPLOAD, times=1))

    if harm is Harm.REFUSE:
        bucket.blob("o").upload_from_string(b"whole", if_generation_match=0, retry=_QUICK)
    else:
        with pytest.raises(Exception, match="412"):
            bucket.blob("o").upload_from_string(b"whole", if_generation_match=0, retry=_QUICK)

    assert_whole(bucket, "o", b"whole")


@pytest.mark.parametrize(("harm", "stored"), [(Harm.REFUSE, 0), (Harm.CUT_UPLOAD, 0), (Harm.CUT_ANSWER, 1)])
def test_an_insert_that_may_not_be_repeated_is_stored_once_at_most(
    proxy: HttpFaults, bucket: storage.Bucket, harm: Harm, stored: int
) -> None:
    limit = 0 if harm is Harm.CUT_ANSWER else _CHUNK
    proxy.harm(Rule(harm, _UPLOAD, after_bytes=limit))

    with pytest.raises((ServiceUnavailable, RequestsConnectionError, RetryError)):
        bucket.blob("o").upload_from_string(_BYTES, retry=None)

    assert generations(bucket, "o") == stored


@pytest.mark.parametrize("harm", [Harm.CUT_ANSWER, Harm.STALL])
def test_a_download_that_breaks_off_goes_on_where_it_was(
    proxy: HttpFaults, bucket: storage.Bucket, harm: Harm
) -> None:
    bucket.blob("o").upload_from_string(_BYTES)
    proxy.harm(Rule(harm, "GET /download", times=2, after_bytes=_CHUNK))
    target = io.BytesIO()

    bucket.blob("o").download_to_file(target, retry=_QUICK, timeout=(5, 1), checksum="crc32c")

    assert target.getvalue() == _BYTES


@pytest.mark.parametrize("chunk_size", [None, _CHUNK], ids=["one request", "chunks"])
@pytest.mark.parametrize("harm", [Harm.REFUSE, Harm.CUT_UPLOAD, Harm.CUT_ANSWER, Harm.STALL])
def test_a_resumable_upload_that_breaks_off_goes_on_and_is_stored_once(
    proxy: HttpFaults, bucket: storage.Bucket, harm: Harm, chunk_size: int | None
) -> None:
    # A stalled answer has its first bytes; a lost one has none.
    limit = {Harm.CUT_UPLOAD: _CHUNK, Harm.STALL: 10}.get(harm, 0)
    proxy.harm(Rule(harm, _RESUME, times=2, after_bytes=limit))
    blob = bucket.blob("o", chunk_size=chunk_size or 8 * _CHUNK)

    blob.upload_from_file(io.BytesIO(_BYTES), retry=_QUICK, timeout=(5, 1))

    assert_whole(bucket, "o", _BYTES)


def test_the_bytes_that_came_before_the_cut_are_not_asked_for_again(
    proxy: HttpFaults, bucket: storage.Bucket
) -> None:
    start = web.post(
        f"{proxy.url}/upload/storage/v1/b/{bucket.name}/o", params={"uploadType": "resumable", "name": "o"}
    )
    session = start.headers["location"]

    def send_half() -> int:
        """Return how many bytes the store has; none if it saw the end of the connection first."""
        proxy.harm(Rule(Harm.CUT_UPLOAD, _RESUME, after_bytes=2 * _CHUNK))
        with pytest.raises(httpx.TransportError):
            web.put(session, content=_BYTES)
        return int(ask().headers.get("range", "bytes=0--1").removeprefix("bytes=0-")) + 1

    def ask() -> httpx.Response:
        place = {"content-range": f"bytes */{len(_BYTES)}"}
        answer = web.put(session, headers=place)
        # 503: the request that was cut is still at work.
        return ask() if answer.status_code == 503 else answer

    here = wait_until(send_half, "the store keeps what came before a cut")
    assert here <= 2 * _CHUNK
    rest = {"content-range": f"bytes {here}-{len(_BYTES) - 1}/{len(_BYTES)}"}
    assert web.put(session, content=_BYTES[here:], headers=rest).status_code == 200
    # A client that did not get the answer sends the end again, and asks.
    assert web.put(session, content=_BYTES[here:], headers=rest).status_code == 200
    assert_whole(bucket, "o", _BYTES)
