"""What a task reads and writes, as names of data sets."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.work.results.lineage import DatasetName, gs_dataset, image_dataset, job_inputs
from training_api.dialects.ml_v1.resources import TrainingInput

DIGEST = "sha256:" + "a" * 64
IMAGE = f"127.0.0.1:5000/demo/digits@{DIGEST}"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("gs://bkt/data/a.csv", "data/a.csv"),
        ("gs://bkt/data/", "data"),
        ("gs://bkt", "/"),
        ("gs://bkt/", "/"),
    ],
)
def test_an_address_is_named_as_openlineage_wants_it(uri: str, name: str) -> None:
    assert gs_dataset(uri) == DatasetName(namespace="gs://bkt", name=name)


@pytest.mark.parametrize("text", ["", "/data", "s3://bkt/x", "gs://"])
def test_other_text_is_no_data_set(text: str) -> None:
    assert gs_dataset(text) is None


@pytest.mark.parametrize(
    ("image", "version"),
    [(IMAGE, DIGEST), ("127.0.0.1:5000/demo/digits:7", "7"), ("127.0.0.1:5000/demo/digits", "")],
)
def test_an_image_is_a_data_set_whose_version_is_its_digest(image: str, version: str) -> None:
    assert image_dataset(image) == DatasetName(
        namespace="oci://127.0.0.1:5000", name="demo/digits", version=version
    )


def test_an_image_that_cannot_be_read_is_none() -> None:
    assert image_dataset("digits") is None


def test_a_job_reads_its_images_its_packages_and_its_data_each_once() -> None:
    training = TrainingInput.model_validate(
        {
            "masterConfig": {"imageUri": IMAGE},
            "workerConfig": {"imageUri": IMAGE},
            "evaluatorConfig": {"imageUri": "127.0.0.1:5000/demo/eval:1"},
            "packageUris": ["gs://bkt/p.tar.gz"],
        }
    )
    record: list[dict[str, Any]] = [
        {"uri": "gs://bkt/p.tar.gz", "objects": 1, "digest": "d", "generations": {"p.tar.gz": 7}},
        {"uri": "gs://bkt/data/", "objects": 2, "digest": "e", "generations": {"data/a": 1, "data/b": 2}},
        {"uri": "gs://bkt/many/", "objects": 9000, "digest": "f", "generations": None},
    ]

    found = job_inputs(training, ["gs://bkt/data/", "gs://bkt/later.csv"], record)

    assert [(dataset.name, dataset.version) for dataset in found] == [
        ("demo/digits", DIGEST),
        ("demo/eval", "1"),
        ("p.tar.gz", "7"),
        ("data", "e"),
        ("later.csv", ""),
        ("many", "f"),
    ]
