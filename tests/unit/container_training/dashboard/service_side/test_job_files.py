"""What a job left in the object store: its files and metrics, or why they cannot be read."""

from __future__ import annotations

import pytest

from container_training.dashboard.service_side.job_files import MAX_FILES, FolderUnreadable, folder_view
from container_training.work.job_buckets import BucketRefused, JobBuckets
from tests.support.fakes.fake_bucket import FakeBucket

JOB_DIR = "gs://bucket/jobs/1"
OWN = JobBuckets.of("training_default", "demo", {"buckets": ["gone"]})


def test_files_are_named_below_the_folder_and_can_be_opened(bucket: FakeBucket) -> None:
    bucket.objects = {"jobs/1/a b.txt": b"12", "jobs/1/model/w.bin": b"1", "jobs/10/x": b""}

    view = folder_view(JOB_DIR, "", OWN)

    assert [(file["name"], file["bytes"]) for file in view["files"]] == [("a b.txt", 2), ("model/w.bin", 1)]
    assert (
        view["files"][0]["url"]
        == f"{bucket.api_endpoint}/storage/v1/b/bucket/o/jobs%2F1%2Fa%20b.txt?alt=media"
    )
    assert (view["folder"], view["isCut"]) == (JOB_DIR, False)


@pytest.mark.parametrize("job_dir", [JOB_DIR, f"{JOB_DIR}/"])
def test_a_slash_at_the_end_of_the_folder_changes_nothing(bucket: FakeBucket, job_dir: str) -> None:
    bucket.objects = {"jobs/1/a": b"1"}

    assert [file["name"] for file in folder_view(job_dir, "", OWN)["files"]] == ["a"]


def test_metrics_are_those_of_the_results(bucket: FakeBucket) -> None:
    bucket.objects = {"jobs/1/metrics.json": b'{"loss": 1}', "jobs/1/2/metrics.json": b'{"loss": 0.5}'}

    view = folder_view(JOB_DIR, f"{JOB_DIR}/2", OWN)

    assert (view["metrics"], view["metricsFrom"]) == ({"loss": 0.5}, f"{JOB_DIR}/2")


@pytest.mark.parametrize(
    "content",
    [b"no json", b"\xff", b"[" * 200_000, b" " * (2**20 + 1), None],
    ids=["text", "bytes", "deep", "large", "none"],
)
def test_metrics_that_cannot_be_shown_are_a_file_like_any_other(
    bucket: FakeBucket, content: bytes | None
) -> None:
    bucket.objects = {} if content is None else {"jobs/1/metrics.json": content}

    view = folder_view(JOB_DIR, JOB_DIR, OWN)

    assert (view["metrics"], view["metricsFrom"]) == (None, None)
    assert len(view["files"]) == len(bucket.objects)


def test_a_long_list_is_cut_and_says_so(bucket: FakeBucket) -> None:
    bucket.objects = {f"jobs/1/{number:04d}": b"" for number in range(MAX_FILES + 1)}

    view = folder_view(JOB_DIR, "", OWN)

    assert (len(view["files"]), view["isCut"]) == (MAX_FILES, True)


@pytest.mark.parametrize("job_dir", ["gs://gone/jobs/1", "s3://bucket/jobs/1"])
def test_a_folder_that_cannot_be_read_says_which_and_why(bucket: FakeBucket, job_dir: str) -> None:
    with pytest.raises(FolderUnreadable, match=f"^{job_dir} cannot be read: ") as caught:
        folder_view(job_dir, "", OWN)

    assert caught.value.__cause__ is not None


def test_a_folder_in_a_bucket_of_another_project_is_not_read(bucket: FakeBucket) -> None:
    bucket.objects, bucket.project = {"jobs/1/secret": b"1"}, "another"

    with pytest.raises(BucketRefused, match="bucket 'bucket' is not one of project 'demo'"):
        folder_view(JOB_DIR, "", OWN)
