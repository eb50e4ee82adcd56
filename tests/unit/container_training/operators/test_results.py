"""The result of a job, collected from what it left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.results import CollectTrainingResultsOperator
from container_training.work.object_store import ObjectStore
from container_training.work.results.collection import parse_metrics
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import EPOCH, PROJECT, FakeService, error, make_job
from training_api.job.results import JobResult
from training_api.states import JobState

FOLDER = "gs://bucket/jobs/digits_1/"


@pytest.fixture
def finished(service: FakeService, bucket: FakeBucket) -> FakeService:
    """Return a service whose job has succeeded and left metrics and a model."""
    service.add(
        make_job(
            state=JobState.SUCCEEDED,
            start_time=EPOCH + timedelta(seconds=5),
            end_time=EPOCH + timedelta(seconds=20),
        )
    )
    for seconds, state in [(0, "QUEUED"), (1, "PREPARING"), (5, "RUNNING"), (20, "SUCCEEDED")]:
        service.write(
            "digits_1",
            {"message": f"Job is {state}.", "state": state},
            task_name="service",
            timestamp=EPOCH + timedelta(seconds=seconds),
        )
    service.write("digits_1", {"state": "RUNNING"}, task_name="master-replica-0", timestamp=EPOCH)
    bucket.objects = {
        "jobs/digits_1/metrics.json": b'{"accuracy": 0.97, "epochs": 30}',
        "jobs/digits_1/model.joblib": b"model",
        "jobs/digits_10/metrics.json": b"{}",
    }
    return service


def collect(context: Any, **changes: Any) -> JobResult:
    operator = CollectTrainingResultsOperator(**{"task_id": "collect", "job_id": "digits_1", **changes})
    return JobResult.model_validate(json.loads(json.dumps(operator.execute(context))))


def test_the_folder_of_a_job_in_a_bucket_of_another_project_is_not_collected(
    finished: FakeService, bucket: FakeBucket, context: Any
) -> None:
    bucket.project = "another"

    with pytest.raises(AirflowFailException, match="BucketRefused: bucket 'bucket' is not one of project"):
        collect(context)


def test_the_result_has_metrics_files_model_image_and_seconds(finished: FakeService, context: Any) -> None:
    result = collect(context)

    assert result.metrics == {"accuracy": 0.97, "epochs": 30}
    assert result.model_uri == f"{FOLDER}model.joblib"
    assert result.image == "127.0.0.1:5000/demo/digits:1"
    assert result.seconds.model_dump() == {"queued": 1.0, "preparing": 4.0, "running": 15.0, "total": 20.0}
    assert [(file.uri, file.size_bytes) for file in result.files] == [
        (f"{FOLDER}metrics.json", 32),
        (f"{FOLDER}model.joblib", 5),
    ]
    assert all(file.crc32c for file in result.files)


def test_the_result_names_a_bill_of_materials_if_there_is_one(
    finished: FakeService, bucket: FakeBucket, context: Any
) -> None:
    without = collect(context).bill_of_materials_uri
    bucket.objects["jobs/digits_1/sbom.cdx.json"] = b"{}"

    assert (without, collect(context).bill_of_materials_uri) == (None, f"{FOLDER}sbom.cdx.json")


def test_without_state_lines_the_jobs_own_times_count(finished: FakeService, context: Any) -> None:
    finished.entries.clear()

    assert collect(context).seconds.model_dump() == {
        "queued": 5.0,
        "preparing": 0.0,
        "running": 15.0,
        "total": 20.0,
    }


def test_a_log_that_may_not_be_read_does_not_lose_the_result(
    finished: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    finished.faults = [None, error(403, "PERMISSION_DENIED", "no logs")]

    assert collect(context).seconds.total == 20.0
    assert any("its log is not readable" in line for line in log_lines)


def test_a_job_without_a_model_has_no_model_uri(
    finished: FakeService, bucket: FakeBucket, context: Any
) -> None:
    assert collect(context, model_file="saved_model.pb").model_uri is None


def test_a_missing_metrics_file_names_file_folder_and_what_is_there(
    finished: FakeService, bucket: FakeBucket, context: Any
) -> None:
    del bucket.objects["jobs/digits_1/metrics.json"]

    with pytest.raises(AirflowFailException) as failed:
        collect(context)

    message = str(failed.value)
    assert message.startswith(f"ResultsMissing: job 'digits_1' left no 'metrics.json' in {FOLDER}")
    assert "the files there are: model.joblib" in message


def test_an_empty_folder_is_called_empty(finished: FakeService, bucket: FakeBucket, context: Any) -> None:
    bucket.objects.clear()

    with pytest.raises(AirflowFailException, match="the folder is empty"):
        collect(context)


@pytest.mark.parametrize("content", [b"[1, 2]", b"not json", b'"text"', b"\xff\xfe", b""])
def test_metrics_that_are_no_json_object_are_refused(
    finished: FakeService, bucket: FakeBucket, context: Any, content: bytes
) -> None:
    bucket.objects["jobs/digits_1/metrics.json"] = content

    with pytest.raises(AirflowFailException, match=r"ResultsMissing: gs://bucket/jobs/digits_1/metrics.json"):
        collect(context)


def test_metrics_of_more_than_a_mebibyte_are_refused(
    finished: FakeService, bucket: FakeBucket, context: Any
) -> None:
    bucket.objects["jobs/digits_1/metrics.json"] = b" " * (2**20 + 1)

    with pytest.raises(AirflowFailException, match="must be at most 1048576 bytes"):
        collect(context)


def test_the_list_of_files_is_limited_and_the_log_says_so(
    finished: FakeService, bucket: FakeBucket, context: Any, log_lines: Sequence[str]
) -> None:
    bucket.objects |= {f"jobs/digits_1/a/{number:04d}": b"x" for number in range(50)}

    result = collect(context, max_files=10)

    assert len(result.files) == 10
    assert result.model_uri == f"{FOLDER}model.joblib"
    assert any("more than 10 files" in line for line in log_lines)


def test_numbers_that_json_does_not_know_become_null() -> None:
    assert parse_metrics(b'{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1.5}', "x") == {
        "a": None,
        "b": None,
        "c": None,
        "d": 1.5,
    }


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (JobState.FAILED, "JobFailed: job 'digits_1' ended as FAILED: exit 3"),
        (JobState.RUNNING, "ResultsMissing: job 'digits_1' is RUNNING; .* wait for its end first"),
    ],
)
def test_a_job_that_did_not_succeed_has_no_results(
    finished: FakeService, context: Any, state: JobState, message: str
) -> None:
    finished.move("digits_1", state, "exit 3")

    with pytest.raises(AirflowFailException, match=message):
        collect(context)


def test_a_job_without_a_folder_could_leave_nothing(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    service.add(make_job(state=JobState.SUCCEEDED, training_input={"region": "r"}))

    with pytest.raises(AirflowFailException, match="has no jobDir"):
        collect(context)


def test_a_missing_bucket_is_named(
    finished: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"host": "training.test", "extra": {"project": PROJECT, "job_bucket": "gs://gone/jobs"}}
    monkeypatch.setenv(
        "AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps({"conn_type": "container_training", **connection})
    )
    finished.add(
        finished.jobs["digits_1"].model_copy(
            update={
                "training_input": make_job(training_input={"jobDir": "gs://gone/jobs"}).training_input,
            }
        )
    )

    with pytest.raises(AirflowFailException, match="bucket 'gone' of gs://gone/jobs/ does not exist"):
        collect(context)


def test_an_object_with_the_same_content_is_not_written_again(bucket: FakeBucket) -> None:
    store = ObjectStore(bucket)

    assert store.write_if_changed("gs://bucket/data.csv", b"1,2", "text/csv")
    assert not store.write_if_changed("gs://bucket/data.csv", b"1,2", "text/csv")
    assert store.write_if_changed("gs://bucket/data.csv", b"1,3", "text/csv")
    assert bucket.writes == 2


@pytest.mark.parametrize("uri", ["s3://bucket/x", "bucket/x", "gs://"])
def test_another_kind_of_address_is_refused(bucket: FakeBucket, uri: str) -> None:
    with pytest.raises(ValueError, match="expected gs://BUCKET/NAME"):
        ObjectStore(bucket).read(uri, 1)
