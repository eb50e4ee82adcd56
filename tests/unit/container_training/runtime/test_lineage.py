"""Names of data sets, and operators that need no OpenLineage."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from airflow.sdk import Asset

from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime.asset_extra import describe_outlets
from container_training.work.results.lineage import DatasetName, gs_dataset, image_dataset, job_inputs
from tests.support.speed import scaled
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


def test_before_it_came_to_a_job_a_task_tells_what_its_arguments_say() -> None:
    submit = SubmitTrainingJobOperator(task_id="submit", image=IMAGE, data_uris="gs://bkt/a gs://bkt/b")

    for lineage in (
        submit.get_openlineage_facets_on_start(),
        submit.get_openlineage_facets_on_complete(None),
    ):
        assert [dataset.name for dataset in lineage.inputs] == ["demo/digits", "a", "b"]
        assert (lineage.outputs, lineage.run_facets) == ([], {})


def test_a_collect_that_collected_nothing_tells_nothing() -> None:
    collect = CollectTrainingResultsOperator(task_id="collect", job_id="a")

    assert collect.get_openlineage_facets_on_complete(None) is None


def test_the_operators_work_without_openlineage() -> None:
    code = """
import sys
from airflow.sdk import BaseHook, BaseOperator  # Airflow asks every installed provider who it is
sys.modules["openlineage"] = None
sys.modules["airflow.providers.openlineage"] = None
import container_training.operators.image, container_training.operators.training, container_training.operators.results
import container_training.pipeline
print("as well")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=scaled(120)
    )

    assert done.stdout.splitlines()[-1] == "as well"


def test_only_assets_are_described_and_what_was_there_stays() -> None:
    from training_api.job.results import JobResult, StateSeconds
    from training_api.states import JobState

    result = JobResult(
        job_id="a",
        state=JobState.SUCCEEDED,
        image=IMAGE,
        job_dir="gs://bkt/a",
        metrics={"accuracy": 0.9},
        model_uri=None,
        files=[],
        seconds=StateSeconds(queued=0, preparing=0, running=0, total=0),
    )
    model = Asset("model")

    class Event:
        extra: dict[str, Any] = {"of": "somebody else"}

    describe_outlets([model, "a table"], {"outlet_events": {model: Event}}, result)  # type: ignore[arg-type, typeddict-item]

    assert Event.extra["of"] == "somebody else"
    assert (Event.extra["job_id"], Event.extra["metrics"]) == ("a", {"accuracy": 0.9})
