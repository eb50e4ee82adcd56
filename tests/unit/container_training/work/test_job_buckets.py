"""Which buckets Airflow reads and writes for jobs."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import Forbidden

from container_training.work.job_buckets import BucketRefused, JobBuckets
from container_training.work.object_store import ObjectStore
from tests.support.fakes.fake_bucket import FakeBucket


class ClosedStore(FakeBucket):
    """A store that lists no buckets to Airflow."""

    def list_buckets(self, prefix: str, project: str) -> list[Any]:
        raise Forbidden("storage.buckets.list")


def check(uri: str, client: FakeBucket | None = None, **extra: Any) -> None:
    JobBuckets.of("training_eu", "demo", extra).check(ObjectStore(client or FakeBucket()), uri)


def test_a_bucket_that_the_store_lists_under_the_project_is_one_of_its_own() -> None:
    check("gs://bucket/jobs/1")


@pytest.mark.parametrize("uri", ["gs://elsewhere/jobs/1", "gs://buck/jobs", "gs://bucket-2/jobs"])
def test_any_other_bucket_is_refused_and_the_way_out_is_said(uri: str) -> None:
    with pytest.raises(BucketRefused, match=r"is not one of project 'demo'.* connection 'training_eu'"):
        check(uri, job_bucket="gs://jobs-bucket/x")


def test_the_bucket_of_another_project_is_refused() -> None:
    client = FakeBucket()
    client.project = "another"

    with pytest.raises(BucketRefused, match="'bucket' is not one of project 'demo'"):
        check("gs://bucket/jobs/1", client)


@pytest.mark.parametrize(
    "extra",
    [
        {"job_bucket": "gs://shared/jobs"},
        {"buckets": ["other", "shared"]},
        {"buckets": "other, shared"},
    ],
)
def test_the_connection_names_buckets_and_then_no_list_is_needed(extra: dict[str, Any]) -> None:
    check("gs://shared/jobs/1", ClosedStore(), **extra)


def test_a_list_that_airflow_may_not_read_is_no_permission() -> None:
    with pytest.raises(BucketRefused):
        check("gs://bucket/jobs/1", ClosedStore(), job_bucket="", buckets="")


@pytest.mark.parametrize("uri", ["s3://bucket/x", "bucket", "gs://"])
def test_another_address_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="expected gs://BUCKET/NAME"):
        check(uri)
