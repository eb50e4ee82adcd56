"""
The Vertex backend's requests, and the answers that it reads, are those recorded.

They lie in ``tests/contract/vertex``. Each is compared to Google's discovery documents, to what the project's
own service does now, and to the fake of the unit tests. ``RECORD_VERTEX=1`` writes them anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.contract.vertex_calls import CALLS, LINES, OF_BACKENDS, Call, FakeBench, LiveBench, small_job
from tests.contract.vertex_tape import FOLDER, Tape, settled, shape_of
from tests.integration.live_service import run_service
from tests.support import web
from tests.support.discovery import schemas
from tests.support.discovery_rules import method_of
from tests.support.fakes.described_jobs import described_jobs
from training_api.dialects.ml_v1.resources import Job
from training_api.job.machines import GIB, Resources
from training_api.vertex_jobs import trials
from training_api.vertex_jobs.options import VertexOptions
from training_api.vertex_jobs.reader import job_of
from training_api.vertex_jobs.writer import VertexRequest, vertex_request


def recording_of(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def faults_of_create(request: VertexRequest) -> list[str]:
    url = f"https://us-central1-aiplatform.googleapis.com/v1/projects/demo/locations/us-central1/{request.collection}"
    return method_of("POST", url).faults_of_request({}, json.loads(json.dumps(request.body)))


def words_of(schema: str, field: str) -> list[str]:
    found: list[str] = schemas("aiplatform.v1")[f"GoogleCloudAiplatformV1{schema}"]["properties"][field][
        "enum"
    ]
    return found


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveBench]:
    engine = MemoryEngine(host=Resources(cpus=64.0, memory_bytes=512 * GIB))
    behaviour = Behaviour(run_seconds=10**9, lines=LINES)
    with run_service(tmp_path, behaviour, engine) as service, web.client() as http:
        yield LiveBench(service, http)


def played(call: Call, bench: Any) -> Any:
    """Return a new recording of a call."""
    ask = call(bench)
    tape = Tape(bench.answer)
    read = ask(tape)
    return settled({"exchanges": tape.exchanges, "read": read})


@pytest.mark.extended
@pytest.mark.parametrize("name", CALLS)
def test_the_service_takes_the_recorded_requests_and_gives_the_recorded_answers(
    live: LiveBench, name: str
) -> None:
    found = played(CALLS[name], live)

    if os.environ.get("RECORD_VERTEX"):
        (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    assert found == recording_of(name), f"{name}.json is stale, or the service is: read the difference"


@pytest.mark.parametrize("name", CALLS)
def test_google_documents_each_recorded_request_and_good_answer(name: str) -> None:
    faults = []
    for exchange in recording_of(name)["exchanges"]:
        request, answer = exchange["request"], exchange["answer"]
        method = method_of(request["method"], request["url"])
        faults += method.faults_of_request(request.get("query", {}), request.get("body"))
        if answer["status"] == 200:
            faults += method.faults_of_answer(answer["body"])

    assert faults == []


@pytest.mark.parametrize("name", OF_BACKENDS)
def test_the_fake_is_asked_the_same_and_answers_in_the_same_shape(name: str) -> None:
    recorded = recording_of(name)["exchanges"]
    found = played(OF_BACKENDS[name], FakeBench())["exchanges"]

    assert [each["request"] for each in found] == [each["request"] for each in recorded]
    assert [shape_of(each["answer"]) for each in found] == [shape_of(each["answer"]) for each in recorded]


@given(described_jobs())
def test_google_documents_whatever_is_submitted(job: Job) -> None:
    request = vertex_request(job)

    assert faults_of_create(request) == []


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "FLEX_START", "max_wait_duration": "3600s", "persistent_resource_id": "machines"},
        {"reservation": "ANY", "network": "projects/1/global/networks/default", "enable_web_access": True},
        {"reservation": ["projects/demo/zones/us-central1-a/reservations/mine"]},
        {"nfs_mounts": [{"server": "10.0.0.1", "path": "/data", "mount_point": "/mnt/nfs/data"}]},
    ],
    ids=lambda options: ", ".join(options),
)
def test_google_documents_what_the_service_does_not_take(options: dict[str, Any]) -> None:
    training_input = {
        "region": "us-central1",
        "masterConfig": {"imageUri": "r.test/p/i:1"},
        "encryptionConfig": {
            "kmsKeyName": "projects/demo/locations/us-central1/keyRings/ring/cryptoKeys/key"
        },
    }
    request = vertex_request(small_job(training_input=training_input), VertexOptions.of(options))

    assert faults_of_create(request) == []


def test_google_documents_parameters_that_depend_on_others() -> None:
    optimizer = {
        "parameterName": "optimizer",
        "type": "CATEGORICAL",
        "categoricalValues": ["adam", "sgd"],
    }
    search = {"goal": "MAXIMIZE", "hyperparameterMetricTag": "accuracy", "params": [optimizer]}
    training_input = {
        "region": "us-central1",
        "masterConfig": {"imageUri": "r.test/p/i:1"},
        "hyperparameters": search,
    }
    momentum = {"parameterId": "momentum", "doubleValueSpec": {"minValue": 0.5, "maxValue": 0.9}}
    below = {"parentCategoricalValues": {"values": ["sgd"]}, "parameterSpec": momentum}
    options = VertexOptions.of({"conditional_parameters": {"optimizer": [below]}})

    assert faults_of_create(vertex_request(small_job(training_input=training_input), options)) == []


@pytest.mark.parametrize("word", words_of("CustomJob", "state"))
def test_each_state_that_google_documents_is_read(word: str) -> None:
    job = job_of({"name": "projects/1/locations/l/customJobs/2", "state": word})

    assert (job.state is None) == (word == "JOB_STATE_UNSPECIFIED")


def test_each_state_of_a_trial_that_google_documents_is_known() -> None:
    assert {*trials._STATES, "STATE_UNSPECIFIED"} == {*words_of("Trial", "state")}


def test_there_is_no_other_recording() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CALLS)
