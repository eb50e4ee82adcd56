"""Google's own clients of Vertex AI's pipelines and models, unmodified, against the service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import BadRequest, MethodNotImplemented, NotFound
from google.auth.credentials import AnonymousCredentials
from googleapiclient.errors import HttpError

from container_engines.memory.engine import Behaviour
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.integration.vertex_sdk import LOCATION, PROJECT, SetUp
from tests.support.bed.vertex import vertex_locations
from tests.support.fakes.custom_jobs import make_pool
from tests.support.fakes.training_pipelines import MODEL, WITH_BASE, make_pipeline
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.project_number import project_number

PARENT = f"projects/{PROJECT}/locations/{LOCATION}"
NUMBERED = f"projects/{project_number(PROJECT)}/locations/{LOCATION}"
POOL = make_pool(imageUri=IMAGE)


# --- google-api-python-client


@pytest.fixture
def locations(service: LiveService) -> Iterator[Any]:
    """``aiplatform`` v1 of google-api-python-client, with the bundled discovery document."""
    with vertex_locations(service.endpoint) as locations:
        yield locations


def test_the_discovery_client_runs_a_pipeline_and_finds_its_model(
    locations: Any, service: LiveService
) -> None:
    pipelines, models = locations.trainingPipelines(), locations.models()
    body = make_pipeline(POOL, job_spec=WITH_BASE, modelToUpload=MODEL, labels={"team": "a"})
    name = pipelines.create(parent=PARENT, body=body).execute()["name"]
    assert name.startswith(f"{NUMBERED}/trainingPipelines/")
    found = pipelines.list(parent=PARENT, filter='display_name:"pipe*" AND labels.team=a').execute()
    assert [each["name"] for each in found["trainingPipelines"]] == [name]

    _let_it_end(lambda: pipelines.get(name=name).execute()["state"], service)
    pipeline = pipelines.get(name=name).execute()

    assert pipeline["state"] == "PIPELINE_STATE_SUCCEEDED"
    job = locations.customJobs().get(name=pipeline["trainingTaskMetadata"]["backingCustomJob"]).execute()
    assert (job["state"], job["endTime"]) == ("JOB_STATE_SUCCEEDED", pipeline["endTime"])
    model = models.get(name=pipeline["modelToUpload"]["name"]).execute()
    assert (model["trainingPipeline"], model["artifactUri"]) == (name, "gs://bucket/base/model/")
    assert models.list(parent=PARENT).execute() == {"models": [model]}

    operation = pipelines.delete(name=name).execute()
    assert operation == locations.operations().get(name=operation["name"]).execute()
    assert models.delete(name=model["name"]).execute()["done"]
    for gone in (pipelines.get(name=name), models.get(name=model["name"])):
        with pytest.raises(HttpError) as caught:
            gone.execute()
        assert caught.value.status_code == 404


def test_the_discovery_client_cancels_a_pipeline(locations: Any) -> None:
    pipelines = locations.trainingPipelines()
    name = pipelines.create(parent=PARENT, body=make_pipeline(POOL)).execute()["name"]

    assert pipelines.cancel(name=name, body={}).execute() == {}
    wait_until(
        lambda: pipelines.get(name=name).execute()["state"] == "PIPELINE_STATE_CANCELLED",
        "the pipeline is cancelled",
    )

    error = pipelines.get(name=name).execute()["error"]
    assert (error["code"], error["message"].startswith("CANCELED: ")) == (1, True)


def test_the_discovery_client_is_told_which_field_breaks_which_rule(locations: Any) -> None:
    body = make_pipeline(make_pool(2), job_spec={"tensorboard": "t"}, modelToUpload={})
    with pytest.raises(HttpError) as caught:
        locations.trainingPipelines().create(parent=PARENT, body=body).execute()

    error = json.loads(caught.value.content)["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert [each["field"] for each in error["details"][0]["fieldViolations"]] == [
        "modelToUpload.displayName",
        "modelToUpload",
        "trainingTaskInputs.tensorboard",
        "trainingTaskInputs.workerPoolSpecs[0].replicaCount",
    ]


def _let_it_end(state: Any, service: LiveService) -> None:
    """Let the time of the engine pass until a pipeline has ended."""

    def has_ended() -> bool:
        service.engine.advance(10**9)
        return state() in ("PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED")

    wait_until(has_ended, "the pipeline has ended")


# --- the SDK's gapic clients over REST: enums are integers


def _gapic(kind: Any, service: LiveService) -> Any:
    return kind(
        credentials=AnonymousCredentials(),
        transport="rest",
        client_options=ClientOptions(api_endpoint=f"{service.endpoint}/vertex"),
    )


@pytest.fixture
def pipelines(service: LiveService) -> Iterator[Any]:
    """``PipelineServiceClient`` over REST."""
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    client = _gapic(PipelineServiceClient, service)
    yield client
    client.transport.close()


@pytest.fixture
def models(service: LiveService) -> Iterator[Any]:
    """``ModelServiceClient`` over REST."""
    from google.cloud.aiplatform_v1 import ModelServiceClient

    client = _gapic(ModelServiceClient, service)
    yield client
    client.transport.close()


def test_the_gapic_clients_read_what_they_wrote(pipelines: Any, models: Any, service: LiveService) -> None:
    from google.cloud.aiplatform_v1 import PipelineState, TrainingPipeline
    from google.protobuf.json_format import ParseDict

    sent = TrainingPipeline()
    ParseDict(make_pipeline(POOL, job_spec=WITH_BASE, modelToUpload=MODEL), sent._pb)
    created = pipelines.create_training_pipeline(parent=PARENT, training_pipeline=sent)

    assert created.state in (PipelineState.PIPELINE_STATE_PENDING, PipelineState.PIPELINE_STATE_RUNNING)
    assert created.training_task_inputs["workerPoolSpecs"][0]["containerSpec"]["imageUri"] == IMAGE
    _let_it_end(lambda: pipelines.get_training_pipeline(name=created.name).state.name, service)
    ended = pipelines.get_training_pipeline(name=created.name)
    assert ended.end_time >= ended.start_time >= ended.create_time
    model = models.get_model(name=f"{ended.model_to_upload.name}@1")
    assert (model.name, model.version_id, list(model.version_aliases)) == (
        ended.model_to_upload.name,
        "1",
        ["default"],
    )
    assert [each.name for each in models.list_models(parent=PARENT)] == [model.name]

    pipelines.delete_training_pipeline(name=created.name).result(timeout=scaled(60))
    models.delete_model(name=model.name).result(timeout=scaled(60))
    with pytest.raises(NotFound):
        models.get_model(name=model.name)
    with pytest.raises(MethodNotImplemented, match="this service has upload, get, list and delete"):
        models.list_model_versions(name=model.name)


def test_the_gapic_client_pages_through_a_list_with_a_mask(pipelines: Any) -> None:
    from google.cloud.aiplatform_v1 import TrainingPipeline
    from google.protobuf.json_format import ParseDict

    names = []
    for number in range(3):
        sent = TrainingPipeline()
        ParseDict(make_pipeline(POOL, displayName=f"p{number}"), sent._pb)
        names.append(pipelines.create_training_pipeline(parent=PARENT, training_pipeline=sent).name)
    request = {"parent": PARENT, "page_size": 2, "read_mask": {"paths": ["name", "display_name"]}}

    found = list(pipelines.list_training_pipelines(request=request))

    assert [each.name for each in found] == names[::-1]
    assert not any(each.training_task_inputs for each in found)


# --- the SDK


@contextmanager
def _time_passes(service: LiveService) -> Iterator[None]:
    """Let the time of the engine pass until the block ends, as the SDK's ``run`` waits."""
    over = threading.Event()

    def pass_time() -> None:
        while not over.wait(0.1):
            service.engine.advance(10**9)

    thread = threading.Thread(target=pass_time)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _training_job(sdk: Any, **changes: Any) -> Any:
    return sdk.CustomContainerTrainingJob(display_name="of the SDK", container_uri=IMAGE, **changes)


def test_a_training_job_of_the_sdk_returns_its_model(sdk_of: SetUp, tmp_path: Path) -> None:
    with run_service(tmp_path) as service, _time_passes(service):
        sdk = sdk_of(service)
        job = _training_job(sdk, model_serving_container_image_uri="registry.test/p/server:1")
        model = job.run(
            model_display_name="a model", args=["--epochs=3"], timeout=3600, base_output_dir="gs://bucket/out"
        )

        assert job.state.name == "PIPELINE_STATE_SUCCEEDED"
        assert (model.display_name, model.uri, model.version_id) == ("a model", "gs://bucket/out/model/", "1")
        assert model.version_aliases == ["default"]
        assert model.container_spec.image_uri == "registry.test/p/server:1"
        assert job.get_model().resource_name == model.resource_name
        assert [each.resource_name for each in sdk.Model.list()] == [model.resource_name]
        assert [
            each.resource_name
            for each in sdk.CustomContainerTrainingJob.list(filter='display_name="of the SDK"')
        ] == [job.resource_name]
        again = sdk.CustomContainerTrainingJob.get(job.resource_name)
        assert again.state == job.state

        again.delete()
        model.delete()
        assert not sdk.Model.list()


@pytest.mark.extended
def test_a_training_job_of_the_sdk_without_a_model_returns_none(sdk_of: SetUp, tmp_path: Path) -> None:
    with run_service(tmp_path) as service, _time_passes(service):
        job = _training_job(sdk_of(service))

        assert job.run(replica_count=2, machine_type="n1-standard-4") is None
        assert job.state.name == "PIPELINE_STATE_SUCCEEDED"


@pytest.mark.extended
def test_a_training_job_of_the_sdk_that_fails_raises_the_words_of_the_service(
    sdk_of: SetUp, tmp_path: Path
) -> None:
    with run_service(tmp_path, Behaviour(exit_code=3)) as service, _time_passes(service):
        job = _training_job(sdk_of(service), model_serving_container_image_uri="registry.test/p/server:1")
        with pytest.raises(RuntimeError) as caught:
            job.run(model_display_name="a model")

        assert job.has_failed
        assert not sdk_of(service).Model.list()
    said = "The replica workerpool0-0 exited with a non-zero status of 3. Termination reason: Error."
    assert said in str(caught.value)
    assert "code: 3" in str(caught.value)


def test_a_training_job_of_the_sdk_is_told_what_is_not_here(sdk_of: SetUp, service: LiveService) -> None:
    job = _training_job(sdk_of(service))

    with pytest.raises(
        BadRequest, match=r"trainingTaskInputs\.tensorboard: this service has no managed TensorBoard"
    ):
        job.run(
            tensorboard=f"projects/1/locations/{LOCATION}/tensorboards/1",
            service_account="a@demo-project.iam.gserviceaccount.com",
        )


# --- a kill


def test_a_service_that_starts_again_goes_on_with_its_pipelines(tmp_path: Path) -> None:
    with run_service(tmp_path) as service, vertex_locations(service.endpoint) as locations:
        body = make_pipeline(POOL, job_spec=WITH_BASE, modelToUpload=MODEL)
        name = locations.trainingPipelines().create(parent=PARENT, body=body).execute()["name"]
    with (
        run_service(tmp_path, engine=service.engine) as again,
        vertex_locations(again.endpoint) as locations,
    ):
        _let_it_end(lambda: locations.trainingPipelines().get(name=name).execute()["state"], again)
        assert len(locations.models().list(parent=PARENT).execute()["models"]) == 1
