"""What a real run reports: OpenLineage's events, and the event of its asset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from local_stack.parts.airflow import airflow_environment
from local_stack.people.credentials import airflow_token
from local_stack.stack import LocalStack
from tests.docker.reusable_trainer import TRAINER, object_store
from tests.support.speed import scaled
from training_api.job.image_ref import ImageRef
from training_api.job.job_id import label_value

#: The first test waits for two runs and their consumers.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(500)]

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]


@pytest.fixture(scope="module")
def data_uri(stack: LocalStack) -> str:
    """The address of one object that the trainer reads."""
    uri = f"gs://{stack.settings.bucket}/data/lineage-{uuid.uuid4().hex[:8]}.txt"
    with closing(object_store(stack)) as store:
        store.write_if_changed(uri, b"one two", "text/plain")
    return uri


@pytest.fixture(scope="module")
def told(
    stack: LocalStack,
    base_image: str,
    engine_client: docker.APIClient,
    pushed_image: ImageRef,
    data_uri: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """Run both DAGs; return the results, what the consumer read, and the events of lineage."""
    folder = tmp_path_factory.mktemp("lineage")
    events = folder / "events.jsonl"
    given = airflow_environment(stack.settings, base_image=base_image, token=airflow_token(stack.settings))
    stack_environment = {
        name: value
        for name, value in given.items()
        if not name.startswith("AIRFLOW_") or name.startswith("AIRFLOW_CONN_")
    }
    environment = {
        **os.environ,
        **stack_environment,
        "STORAGE_EMULATOR_HOST": stack.settings.object_store_url,
        "AIRFLOW__CORE__DAGS_FOLDER": str(HERE / "lineage_dags"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(events), "append": True}
        ),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "60",  # 10 by default, and then the event is lost
        "LINEAGE_IMAGE": f"{pushed_image.name}:test",
        "LINEAGE_DATA": data_uri,
        "LINEAGE_TRAINER": TRAINER,
        "LINEAGE_JOB_BUCKET": stack.settings.job_bucket,
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "lineage_process.py")],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=scaled(400),
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    lines = events.read_text(encoding="utf-8").splitlines()
    return {**json.loads(done.stdout.splitlines()[-1]), "events": [json.loads(line) for line in lines]}


def events_of(told: dict[str, Any], task_id: str, kind: str) -> list[dict[str, Any]]:
    """Return the events of a task, oldest first."""
    name = f"lineage_producer.{task_id}"
    return [event for event in told["events"] if (event["job"]["name"], event["eventType"]) == (name, kind)]


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(dataset["namespace"], dataset["name"]) for dataset in datasets]


def version(dataset: dict[str, Any]) -> str:
    return str(dataset["facets"]["version"]["datasetVersion"])


def split(uri: str) -> tuple[str, str]:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return f"gs://{bucket}", name


def test_submit_reads_image_and_data_and_writes_the_jobs_folder(
    told: dict[str, Any], pushed_image: ImageRef, data_uri: str, stack: LocalStack
) -> None:
    started = events_of(told, "submit", "START")[0]
    first, second = events_of(told, "submit", "COMPLETE")
    image = (f"oci://{pushed_image.host}", pushed_image.repository)

    assert names(started["inputs"]) == [image, split(data_uri)]
    assert names(first["inputs"]) == [image, split(data_uri)]
    assert version(first["inputs"][0]) == pushed_image.digest
    with closing(object_store(stack)) as store:
        (found,) = store.generations(data_uri)
    assert version(first["inputs"][1]) == str(found[1])
    assert names(first["outputs"]) == [split(told["results"][0]["job_dir"])]
    # It made nothing: the folder is that of the earlier job.
    assert second["outputs"] == []


def test_a_run_names_its_job_and_its_image(told: dict[str, Any], pushed_image: ImageRef) -> None:
    facets = [
        event["run"]["facets"]["containerTraining_job"] for event in events_of(told, "submit", "COMPLETE")
    ]
    result = told["results"][0]

    for facet in facets:
        assert facet["jobId"] == result["job_id"]
        assert facet["jobUrl"] == result["job_url"]
        assert facet["images"] == [str(pushed_image)]
        assert label_value(facet["content"]) == facet["content"]
        assert facet["_schemaURL"].endswith("#/$defs/RunFacet")
    assert [facet["reused"] for facet in facets] == [False, True]


def test_collect_goes_from_the_folder_to_the_model_and_has_the_metrics(told: dict[str, Any]) -> None:
    event, result = events_of(told, "collect", "COMPLETE")[0], told["results"][0]
    facet = event["run"]["facets"]["containerTraining_job"]
    models = [dataset for dataset in event["outputs"] if dataset["namespace"].startswith("gs://")]
    (file,) = [file for file in result["files"] if file["uri"] == result["model_uri"]]

    assert names(event["inputs"]) == [split(result["job_dir"])]
    assert names(models) == [split(result["model_uri"])]
    assert version(models[0]) == file["crc32c"]
    assert models[0]["outputFacets"]["outputStatistics"]["size"] == file["size_bytes"]
    assert (facet["metrics"], facet["state"]) == ({"rows": 2}, "SUCCEEDED")
    assert facet["seconds"] == result["seconds"]


def test_push_writes_the_image_that_submit_reads(told: dict[str, Any], pushed_image: ImageRef) -> None:
    pushed, submitted = events_of(told, "push", "COMPLETE")[0], events_of(told, "submit", "COMPLETE")[0]

    assert names(pushed["outputs"]) == names(submitted["inputs"])[:1]
    assert version(pushed["outputs"][0]) == version(submitted["inputs"][0]) == pushed_image.digest


def test_whoever_runs_on_the_asset_reads_which_model_it_is(told: dict[str, Any]) -> None:
    keys = ("job_id", "job_url", "image", "metrics", "model_uri", "job_dir", "reused")

    assert told["read"] == [{key: result[key] for key in keys} for result in told["results"]]
    assert [value["reused"] for value in told["read"]] == [False, True]
