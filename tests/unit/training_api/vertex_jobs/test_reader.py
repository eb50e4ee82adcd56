"""A job as Vertex AI answers it, in the one description."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given

from tests.support.fakes.described_jobs import ID, answered, described_jobs, make_custom, make_job
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.states import JobState
from training_api.vertex_jobs.options import VertexOptions
from training_api.vertex_jobs.reader import job_of
from training_api.vertex_jobs.writer import VertexRequest, vertex_request
from training_service.api.vertex_v1.canonical import canonical


def training_of(job: Job) -> TrainingInput:
    assert job.training_input is not None
    return job.training_input


@given(described_jobs())
def test_what_was_written_is_read_as_the_same_job(job: Job) -> None:
    request = vertex_request(job)
    message = "CustomJob" if request.collection == "customJobs" else "HyperparameterTuningJob"
    shown = VertexRequest(collection=request.collection, body=canonical(message, request.body))

    read = job_of(answered(shown))

    again = job_spec_from_wire("demo", read.model_copy(update={"job_id": job.job_id}))
    asked = job_spec_from_wire("demo", job)
    assert again.replicas == asked.replicas
    assert (again.output_dir, again.labels, again.max_running) == (
        asked.output_dir,
        asked.labels,
        asked.max_running,
    )
    assert vertex_request(read.model_copy(update={"job_id": job.job_id})) == request
    assert (again.study is None) == (asked.study is None)
    if again.study and asked.study:
        assert again.study.parameters == asked.study.parameters
        assert (again.study.goal, again.study.metric_tag) == (asked.study.goal, asked.study.metric_tag)


def test_a_job_has_the_number_that_the_service_gave_it() -> None:
    job = job_of(
        answered(
            vertex_request(make_job(args=["--x"], jobDir="gs://bkt/out")),
            labels={"team": ""},
            createTime="2026-01-31T12:00:00.123456789Z",
            startTime="2026-01-31T12:01:00Z",
            endTime="2026-01-31T12:02:00Z",
        )
    )

    assert job.job_id == ID
    assert job.state is JobState.PREPARING
    assert job.labels == {"team": ""}
    assert job.create_time == datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
    assert (job.start_time, job.end_time) == (
        datetime(2026, 1, 31, 12, 1, tzinfo=UTC),
        datetime(2026, 1, 31, 12, 2, tzinfo=UTC),
    )
    assert training_of(job).to_wire() == {
        "region": "europe-west4",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": "registry.test/p/i:1", "containerArgs": ["--x"]},
        "jobDir": "gs://bkt/out",
    }
    assert job.training_output is None


def test_arguments_that_another_client_gave_stay() -> None:
    resource = answered(vertex_request(make_job(jobDir="gs://bkt/out")))
    task = resource["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    task["args"] = ["--job-dir", "gs://bkt/other", "--model=$(AIP_MODEL_DIR)"]

    config = training_of(job_of(resource)).master_config
    assert config is not None
    assert config.container_args == task["args"]


def test_packages_and_what_else_ml_v1_has_words_for_are_read() -> None:
    packages = {"packageUris": ["gs://bkt/a.tar.gz"], "pythonModule": "trainer.task", "args": ["--x"]}
    key = {"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}
    network = "projects/1/global/networks/n"
    job = make_job(**packages, network=network, encryptionConfig=key, serviceAccount="a@b.c")
    options = VertexOptions(strategy="FLEX_START", max_wait_duration="60s", enable_web_access=True)

    found = training_of(job_of(answered(vertex_request(job, options)))).to_wire()

    assert found == {
        **packages,
        "region": "europe-west4",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": "registry.test/p/i:1"},
        "serviceAccount": "a@b.c",
        "network": network,
        "encryptionConfig": key,
        "enableWebAccess": True,
        "scheduling": {"maxWaitTime": "60s"},
    }


def test_accelerators_that_a_machine_comes_with_go_without_saying() -> None:
    for machine in ("g2-standard-8", "a2-highgpu-1g"):
        config = training_of(job_of(answered(vertex_request(make_custom(machine))))).master_config

        assert config is not None
        assert config.accelerator_config is None


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("JOB_STATE_QUEUED", JobState.QUEUED),
        ("JOB_STATE_RUNNING", JobState.RUNNING),
        ("JOB_STATE_UPDATING", JobState.RUNNING),
        ("JOB_STATE_CANCELLING", JobState.CANCELLING),
        ("JOB_STATE_SUCCEEDED", JobState.SUCCEEDED),
    ],
)
def test_states_are_those_of_ml_v1(word: str, state: JobState) -> None:
    job = job_of(answered(vertex_request(make_job()), state=word))

    assert (job.state, job.error_message) == (state, None)


@pytest.mark.parametrize("word", ["JOB_STATE_PAUSED", "JOB_STATE_EXPIRED", "JOB_STATE_PARTIALLY_SUCCEEDED"])
def test_an_end_that_ml_v1_has_no_word_for_is_a_failure_that_says_it(word: str) -> None:
    job = job_of(answered(vertex_request(make_job()), state=word))

    assert job.state is JobState.FAILED
    assert word in (job.error_message or "")


def test_an_error_is_its_message() -> None:
    resource = answered(
        vertex_request(make_job()), state="JOB_STATE_FAILED", error={"code": 3, "message": "exited with 1"}
    )

    assert job_of(resource).error_message == "exited with 1"
