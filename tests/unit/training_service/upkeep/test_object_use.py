"""What the object store is asked, and what its answers mean."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from container_engines.disk_use import DiskUse
from training_service.upkeep.object_use import StoredObjects

SINCE = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def store(status: int, asked: list[httpx.Request]) -> StoredObjects:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, json={"objects": 2, "bytes": 7})

    return StoredObjects("http://store.test/", httpx.MockTransport(answer))


@pytest.mark.parametrize(
    ("directory", "prefix"), [("gs://b/jobs/j", "jobs/j/"), ("gs://b/jobs/j/", "jobs/j/"), ("gs://b", "")]
)
def test_only_what_lies_in_the_folder_counts(directory: str, prefix: str) -> None:
    asked: list[httpx.Request] = []

    assert store(200, asked).below(directory, SINCE) == DiskUse(bytes=7, files=2)

    assert asked[0].url.path == "/storage/v1/b/b/use"
    assert dict(asked[0].url.params) == {"prefix": prefix, "since": "1000000"}


@pytest.mark.parametrize("status", [404, 501])
def test_a_missing_bucket_and_another_store_say_nothing(status: int) -> None:
    assert store(status, []).below("gs://b/j", SINCE) is None


def test_a_store_that_makes_mistakes_is_told() -> None:
    with pytest.raises(httpx.HTTPStatusError):
        store(503, []).below("gs://b/j", SINCE)
