"""What makes two jobs the same, and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from container_training.work.submission.content import (
    CONTENT_LABEL,
    DataVersion,
    content_hash,
    data_record,
    has_content,
    images_without_digest,
)
from tests.support.fakes.described_jobs import answered, described_jobs
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.states import JobState
from training_api.vertex_jobs.reader import job_of
from training_api.vertex_jobs.writer import vertex_request

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
DATA = [DataVersion.of("gs://bkt/data/", [("data/a.csv", 1), ("data/b.csv", 2)])]


def make_input(**changes: Any) -> TrainingInput:
    fields: dict[str, Any] = {
        "region": "us-central1",
        "args": ["--epochs", "3"],
        "masterConfig": {"imageUri": f"127.0.0.1:5000/demo/digits@{DIGEST}"},
        "jobDir": "gs://bkt/jobs/1",
    }
    return TrainingInput.model_validate(fields | changes)


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["--epochs", "4"]},
        {"args": ["3", "--epochs"]},
        {"masterConfig": {"imageUri": f"127.0.0.1:5000/demo/digits@{OTHER}"}},
        {"masterConfig": {"imageUri": f"127.0.0.1:5000/demo/digits@{DIGEST}", "containerCommand": ["x"]}},
        {"scaleTier": "CUSTOM", "masterType": "n1-standard-8"},
        {"scaleTier": "STANDARD_1"},
        {
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "workerType": "n1-standard-4",
            "workerCount": "2",
        },
        {
            "masterConfig": {
                "imageUri": f"127.0.0.1:5000/demo/digits@{DIGEST}",
                "diskConfig": {"bootDiskSizeGb": 9},
            }
        },
        {"useChiefInTfConfig": True},
        {"serviceAccount": "a@b.iam.gserviceaccount.com"},
        {"hyperparameters": {"goal": "MAXIMIZE", "maxTrials": 4, "params": []}},
        {"packageUris": ["gs://bkt/p.tar.gz"]},
        {"runtimeVersion": "2.11"},
        {"pythonVersion": "3.7"},
    ],
    ids=lambda change: "-".join(change),
)
def test_what_decides_the_result_is_content(change: dict[str, Any]) -> None:
    assert content_hash(make_input(**change), DATA) != content_hash(make_input(), DATA)


@pytest.mark.parametrize(
    "change",
    [
        {"region": "europe-west4"},
        {"jobDir": "gs://bkt/jobs/2"},
        {"jobDir": None},
        {"scheduling": {"maxRunningTime": "60s", "priority": 3}},
        {"enableWebAccess": True},
        {"scaleTier": "BASIC"},  # what it is anyway
        {"scaleTier": "CUSTOM", "masterType": "n1-standard-4"},  # what BASIC has
        {"workerConfig": {"imageUri": f"127.0.0.1:5000/demo/worker@{DIGEST}"}},  # of no worker
        {"masterConfig": {"imageUri": f"127.0.0.1:5000/elsewhere/copy:v7@{DIGEST}"}},
    ],
    ids=lambda change: "-".join(change),
)
def test_what_does_not_is_none(change: dict[str, Any]) -> None:
    assert content_hash(make_input(**change), DATA) == content_hash(make_input(), DATA)


@pytest.mark.parametrize(
    "objects",
    [
        [("data/a.csv", 1)],
        [("data/a.csv", 1), ("data/b.csv", 3)],
        [("data/a.csv", 1), ("data/b.csv", 2), ("data/c.csv", 1)],
        [("data/a.csv", 1), ("data/c.csv", 2)],
    ],
    ids=["one less", "written again", "one more", "another name"],
)
def test_a_changed_object_is_other_content(objects: list[tuple[str, int]]) -> None:
    changed = [DataVersion.of("gs://bkt/data/", objects)]

    assert content_hash(make_input(), changed) != content_hash(make_input(), DATA)


@given(described_jobs())
def test_vertex_ai_s_jobs_have_the_content_that_was_submitted(job: Job) -> None:
    shown = job_of(answered(vertex_request(job)))
    assert job.training_input is not None
    assert shown.training_input is not None

    assert content_hash(shown.training_input, DATA) == content_hash(job.training_input, DATA)


def test_options_are_content() -> None:
    options = {"env": {"RATE": "1"}}
    wanted = content_hash(make_input(), DATA, options)
    job = Job(
        job_id="a",
        state=JobState.SUCCEEDED,
        labels={CONTENT_LABEL: wanted},
        training_input=make_input(),
    )

    assert wanted != content_hash(make_input(), DATA)
    assert has_content(job, wanted, DATA, options)
    assert not has_content(job, wanted, DATA, {"env": {"RATE": "2"}})


def test_the_order_in_which_data_are_named_or_listed_does_not_matter() -> None:
    other = DataVersion.of("gs://bkt/x", [("x", 7)])
    turned = [other, DataVersion.of("gs://bkt/data/", [("data/b.csv", 2), ("data/a.csv", 1)])]

    assert content_hash(make_input(), turned) == content_hash(make_input(), [*DATA, other])


def test_the_hash_fits_into_a_label() -> None:
    labels = {CONTENT_LABEL: content_hash(make_input(), DATA)}

    assert job_spec_from_wire("demo", Job(job_id="a", labels=labels, training_input=make_input()))
    assert len(labels[CONTENT_LABEL]) == 32


def test_a_job_counts_only_if_it_succeeded_and_its_request_bears_out_its_label() -> None:
    wanted = content_hash(make_input(), DATA)
    labels = {CONTENT_LABEL: wanted}
    job = Job(
        job_id="a", state=JobState.SUCCEEDED, labels=labels, training_input=make_input(jobDir="gs://bkt/c")
    )

    assert has_content(job, wanted, DATA)
    assert not has_content(job.model_copy(update={"state": JobState.RUNNING}), wanted, DATA)
    assert not has_content(job.model_copy(update={"labels": {}}), wanted, DATA)
    # Somebody put the label of one job onto another.
    assert not has_content(
        job.model_copy(update={"training_input": make_input(args=["--epochs", "9"])}), wanted, DATA
    )


def test_every_image_that_runs_needs_a_digest() -> None:
    training = make_input(
        scaleTier="CUSTOM",
        masterType="n1-standard-4",
        workerType="n1-standard-4",
        workerCount=3,
        workerConfig={"imageUri": "127.0.0.1:5000/demo/worker:1"},
        # Not read: there is none.
        evaluatorConfig={"imageUri": "127.0.0.1:5000/demo/evaluator:1"},
    )
    spec = job_spec_from_wire("demo", Job(job_id="a", training_input=training))

    assert images_without_digest(spec) == ["127.0.0.1:5000/demo/worker:1"]


def test_a_record_stays_small_enough_for_the_state_store() -> None:
    many = DataVersion.of("gs://bkt/many/", [(f"many/{number:06d}", number) for number in range(5_000)])
    some = DataVersion.of("gs://bkt/some/", [(f"some/{number:06d}", number) for number in range(1_000)])

    record: list[Any] = data_record([*DATA, some, some, many])

    assert record[0] == {
        "uri": "gs://bkt/data/",
        "objects": 2,
        "digest": DATA[0].digest,
        "generations": {"data/a.csv": 1, "data/b.csv": 2},
    }
    assert [value["generations"] is None for value in record] == [False, False, True, True]
    assert len(str(record)) < 65_535
