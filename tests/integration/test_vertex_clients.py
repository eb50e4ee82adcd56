"""Google's own clients of Vertex AI, unmodified, against the service."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import BadRequest, NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage  # noqa: TID253  # what the SDK stages with
from googleapiclient.errors import HttpError

from container_engines.base import ReplicaLaunch
from container_engines.memory.engine import Behaviour
from container_engines.memory.scripted_reports import ScriptedReport
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.integration.vertex_sdk import LOCATION, PROJECT, SetUp
from tests.support.bed.vertex import vertex_locations
from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from tests.support.fakes.vertex_tuning_jobs import make_tuning_job
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


def test_the_discovery_client_creates_lists_cancels_and_deletes(locations: Any, service: LiveService) -> None:
    jobs = locations.customJobs()
    created = jobs.create(parent=PARENT, body=make_custom_job(POOL, labels={"team": "a"})).execute()
    name = created["name"]

    assert name.startswith(f"{NUMBERED}/customJobs/")
    assert created["state"] == "JOB_STATE_QUEUED"
    assert (
        jobs.list(parent=PARENT, filter='display_name:"jo*" AND labels.team=a').execute()["customJobs"][0][
            "name"
        ]
        == name
    )
    assert jobs.list(parent=PARENT, filter="labels.team=b").execute() == {}

    assert jobs.cancel(name=name, body={}).execute() == {}
    wait_until(
        lambda: jobs.get(name=name).execute()["state"] == "JOB_STATE_CANCELLED", "the job is cancelled"
    )
    assert jobs.get(name=name).execute()["error"]["code"] == 1

    operation = jobs.delete(name=name).execute()
    assert operation["done"]
    again = locations.operations().get(name=operation["name"]).execute()
    assert again == operation == locations.operations().wait(name=operation["name"]).execute()
    with pytest.raises(HttpError) as caught:
        jobs.get(name=name).execute()
    assert caught.value.status_code == 404


def test_the_discovery_client_reads_locations(locations: Any) -> None:
    found = locations.list(name=f"projects/{PROJECT}").execute()["locations"]

    assert LOCATION in [each["locationId"] for each in found]
    assert locations.get(name=PARENT).execute()["name"] == PARENT


def test_the_discovery_client_is_told_which_field_breaks_which_rule(locations: Any) -> None:
    with pytest.raises(HttpError) as caught:
        locations.customJobs().create(
            parent=PARENT, body=make_custom_job(make_pool(2), tensorboard="t")
        ).execute()

    error = json.loads(caught.value.content)["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert [each["field"] for each in error["details"][0]["fieldViolations"]] == [
        "jobSpec.tensorboard",
        "jobSpec.workerPoolSpecs[0].replicaCount",
    ]


def test_the_discovery_client_tunes(locations: Any) -> None:
    jobs = locations.hyperparameterTuningJobs()
    created = jobs.create(parent=PARENT, body=make_tuning_job(POOL, labels={"team": "a"})).execute()
    name = created["name"]

    assert name.startswith(f"{NUMBERED}/hyperparameterTuningJobs/")
    listed = jobs.list(parent=PARENT, filter="labels.team=a", readMask="name").execute()
    assert listed == {"hyperparameterTuningJobs": [{"name": name}]}
    wait_until(
        lambda: len(jobs.get(name=name).execute().get("trials", [])) == 2, "two trials run side by side"
    )
    trial = jobs.get(name=name).execute()["trials"][0]
    custom = locations.customJobs().get(name=trial["customJob"]).execute()
    assert custom["name"] == trial["customJob"]
    assert custom["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"] == [
        f"--rate={trial['parameters'][0]['value']}"
    ]
    with pytest.raises(HttpError, match="this CustomJob is trial 1 of"):
        locations.customJobs().cancel(name=trial["customJob"], body={}).execute()

    assert jobs.cancel(name=name, body={}).execute() == {}
    wait_until(
        lambda: jobs.get(name=name).execute()["state"] == "JOB_STATE_CANCELLED", "the search is cancelled"
    )
    assert locations.customJobs().list(parent=PARENT).execute() == {}
    assert jobs.delete(name=name).execute()["done"]
    with pytest.raises(HttpError) as caught:
        locations.customJobs().get(name=trial["customJob"]).execute()
    assert caught.value.status_code == 404


def test_what_is_not_there_is_refused_by_name(locations: Any) -> None:
    with pytest.raises(HttpError) as caught:
        locations.pipelineJobs().list(parent=PARENT).execute()

    assert caught.value.status_code == 501
    assert "and not 'v1/" in str(caught.value)


# --- the SDK's gapic client over REST: enums are integers


@pytest.fixture
def gapic(service: LiveService) -> Iterator[Any]:
    """``JobServiceClient`` over REST."""
    from google.cloud.aiplatform_v1 import JobServiceClient

    client = JobServiceClient(
        credentials=AnonymousCredentials(),
        transport="rest",
        client_options=ClientOptions(api_endpoint=f"{service.endpoint}/vertex"),
    )
    yield client
    client.transport.close()


def test_the_gapic_client_reads_what_it_wrote(gapic: Any) -> None:
    from google.cloud.aiplatform_v1 import AcceleratorType, JobState, Scheduling
    from google.protobuf.json_format import MessageToDict

    gpu = {"machine_type": "n1-standard-4", "accelerator_type": AcceleratorType.NVIDIA_TESLA_T4}
    sent = {
        "display_name": "job",
        "job_spec": {
            "worker_pool_specs": [
                {
                    "machine_spec": {"machine_type": "n1-standard-4"},
                    "replica_count": 1,
                    "container_spec": {"image_uri": IMAGE, "env": [{"name": "A", "value": "1"}]},
                },
                {},
                {
                    "machine_spec": {"machine_type": "e2-standard-4"},
                    "replica_count": 2,
                    "container_spec": {"image_uri": IMAGE},
                },
            ],
            "scheduling": {"timeout": {"seconds": 3600}, "strategy": Scheduling.Strategy.SPOT},
        },
    }
    created = gapic.create_custom_job(parent=PARENT, custom_job=sent)

    assert created.state is JobState.JOB_STATE_QUEUED
    assert created.create_time.tzinfo is not None
    assert created.job_spec.scheduling.strategy is Scheduling.Strategy.SPOT
    assert [pool.replica_count for pool in created.job_spec.worker_pool_specs] == [1, 0, 2]
    read = gapic.get_custom_job(name=created.name)
    assert MessageToDict(read.job_spec._pb) == MessageToDict(created.job_spec._pb)
    wrong = {**sent["job_spec"]["worker_pool_specs"][0], "machine_spec": gpu}
    with pytest.raises(BadRequest, match="acceleratorCount: must be set together with acceleratorType"):
        gapic.create_custom_job(
            parent=PARENT, custom_job={**sent, "job_spec": {"worker_pool_specs": [wrong]}}
        )


def test_the_gapic_client_pages_through_a_list_with_a_mask(gapic: Any) -> None:
    names = [
        gapic.create_custom_job(parent=PARENT, custom_job=_named(f"job-{number}")).name for number in range(5)
    ]
    request = {"parent": PARENT, "page_size": 2, "read_mask": {"paths": ["name", "display_name"]}}

    found = list(gapic.list_custom_jobs(request=request))

    assert [each.name for each in found] == names[::-1]
    assert not any(each.job_spec.worker_pool_specs for each in found)


def test_a_job_of_another_location_is_not_found(gapic: Any) -> None:
    name = gapic.create_custom_job(parent=PARENT, custom_job=_named("job")).name

    with pytest.raises(NotFound):
        gapic.get_custom_job(name=name.replace(LOCATION, "europe-west4"))
    assert not list(gapic.list_custom_jobs(parent=PARENT.replace(LOCATION, "europe-west4")))


def test_the_gapic_client_reads_the_study_that_it_wrote(gapic: Any) -> None:
    from google.cloud.aiplatform_v1 import StudySpec
    from google.protobuf.json_format import MessageToDict

    parameters = [
        {"parameter_id": "rate", "double_value_spec": {"min_value": 0, "max_value": 1}},
        {"parameter_id": "units", "integer_value_spec": {"min_value": 1, "max_value": 64}},
        {"parameter_id": "size", "discrete_value_spec": {"values": [16, 32.5]}},
        {"parameter_id": "kind", "categorical_value_spec": {"values": ["adam", "sgd"]}},
    ]
    metric = {"metric_id": "loss", "goal": StudySpec.MetricSpec.GoalType.MINIMIZE}
    sent = {
        "display_name": "search",
        "max_trial_count": 3,
        "parallel_trial_count": 1,
        "trial_job_spec": _named("trial")["job_spec"],
        "study_spec": {
            "metrics": [metric],
            "parameters": parameters,
            "algorithm": StudySpec.Algorithm.RANDOM_SEARCH,
            "median_automated_stopping_spec": {"use_elapsed_duration": True},
        },
    }
    created = gapic.create_hyperparameter_tuning_job(parent=PARENT, hyperparameter_tuning_job=sent)

    assert created.study_spec.algorithm is StudySpec.Algorithm.RANDOM_SEARCH
    assert created.study_spec.median_automated_stopping_spec.use_elapsed_duration
    read = gapic.get_hyperparameter_tuning_job(name=created.name)
    assert MessageToDict(read.study_spec._pb) == MessageToDict(created.study_spec._pb)
    assert [each.name for each in gapic.list_hyperparameter_tuning_jobs(parent=PARENT)] == [created.name]
    wrong = {**sent, "study_spec": {**sent["study_spec"], "metrics": [metric, {"metric_id": "other"}]}}
    with pytest.raises(BadRequest, match=r"studySpec\.metrics: must be one metric"):
        gapic.create_hyperparameter_tuning_job(parent=PARENT, hyperparameter_tuning_job=wrong)


def _named(name: str) -> dict[str, Any]:
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": IMAGE},
    }
    return {"display_name": name, "job_spec": {"worker_pool_specs": [pool]}}


# --- the SDK


def _custom_job(sdk: Any) -> Any:
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": IMAGE, "args": ["--epochs=3"]},
    }
    return sdk.CustomJob(display_name="of the SDK", worker_pool_specs=[pool])


def test_a_job_of_the_sdk_is_submitted_listed_cancelled_and_deleted(
    sdk_of: SetUp, service: LiveService
) -> None:
    sdk = sdk_of(service)
    job = _custom_job(sdk)
    job.submit(timeout=3600)

    assert job.resource_name.startswith(f"{NUMBERED}/customJobs/")
    assert job.state.name in ("JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING")
    assert [each.resource_name for each in sdk.CustomJob.list(filter='display_name="of the SDK"')] == [
        job.resource_name
    ]
    assert sdk.CustomJob.get(job.name).display_name == "of the SDK"

    job.cancel()
    wait_until(lambda: job.state.name == "JOB_STATE_CANCELLED", "the job is cancelled")
    assert job.error.message.startswith("CANCELED: ")
    job.delete()
    assert not sdk.CustomJob.list()


def _run_to_the_end(sdk: Any, service: LiveService) -> Any:
    """Start ``run`` on its thread, and let the time of the engine pass."""
    job = _custom_job(sdk)
    job.run(sync=False)
    job.wait_for_resource_creation()
    wait_until(lambda: job.state.name == "JOB_STATE_RUNNING", "the job runs")
    service.engine.advance(10**9)
    return job


@pytest.mark.extended
def test_a_job_of_the_sdk_that_fails_raises_the_words_of_the_service(sdk_of: SetUp, tmp_path: Path) -> None:
    with run_service(tmp_path, Behaviour(exit_code=1)) as service:
        job = _run_to_the_end(sdk_of(service), service)

        with pytest.raises(RuntimeError) as caught:
            job.wait()

    said = "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error."
    assert said in str(caught.value)


def _accuracy(launch: ReplicaLaunch) -> list[ScriptedReport]:
    """Rise to a value that depends on the rate, and fall again."""
    (rate,) = [float(arg.partition("=")[2]) for arg in launch.args if arg.startswith("--rate=")]
    return [
        ScriptedReport(after_seconds=step, tag="accuracy", step=step, value=value - rate)
        for step, value in enumerate((2.0, 3.0, 1.0), 1)
    ]


def test_a_search_of_the_sdk_runs_to_its_end(sdk_of: SetUp, tmp_path: Path) -> None:
    """The SDK asks for the best measurement."""
    from google.cloud.aiplatform import hyperparameter_tuning as hpt

    with run_service(tmp_path, Behaviour(run_seconds=10, report=_accuracy)) as service:
        sdk = sdk_of(service)
        search = sdk.HyperparameterTuningJob(
            display_name="search",
            custom_job=_custom_job(sdk),
            metric_spec={"accuracy": "maximize"},
            parameter_spec={
                "rate": hpt.DoubleParameterSpec(min=0.001, max=1, scale="log"),
                "units": hpt.IntegerParameterSpec(min=4, max=128, scale="linear"),
                "kind": hpt.CategoricalParameterSpec(values=["relu", "tanh"]),
                "size": hpt.DiscreteParameterSpec(values=[16, 32.5], scale="linear"),
            },
            max_trial_count=4,
            parallel_trial_count=2,
        )
        search.run(sync=False)
        search.wait_for_resource_creation()

        def ended() -> bool:
            service.engine.advance(1)
            return search.state.name not in ("JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING")

        wait_until(ended, "the search has ended")
        search.wait()
        trials, state = search.trials, search.state.name

    assert state == "JOB_STATE_SUCCEEDED"
    assert [trial.id for trial in trials] == ["1", "2", "3", "4"]
    for trial in trials:
        values = {each.parameter_id: each.value for each in trial.parameters}
        assert trial.state.name == "SUCCEEDED"
        assert values["units"] in range(4, 129)
        assert values["kind"] in ("relu", "tanh")
        assert values["size"] in (16, 32.5)
        (metric,) = trial.final_measurement.metrics
        assert metric.value == pytest.approx(3 - values["rate"])
        assert trial.final_measurement.step_count == 2
        assert trial.start_time <= trial.end_time


def test_a_job_of_the_sdk_runs_to_its_end(sdk_of: SetUp, service: LiveService) -> None:
    job = _run_to_the_end(sdk_of(service), service)
    job.wait()

    assert job.state.name == "JOB_STATE_SUCCEEDED"
    assert job.gca_resource.end_time >= job.gca_resource.start_time >= job.gca_resource.create_time


@pytest.fixture
def staging(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.Bucket]:
    """A bucket in an object store, which the SDK finds as its users let it."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", store_url)
    client = storage.Client(project=PROJECT, credentials=AnonymousCredentials())
    yield client.create_bucket(f"b-{uuid.uuid4().hex[:12]}")
    client._http.close()
    client.close()


def test_a_local_script_on_an_image_that_is_prebuilt_runs_as_a_package_in_what_it_stands_for(
    sdk_of: SetUp, tmp_path: Path, staging: storage.Bucket, store_url: str
) -> None:
    prebuilt = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest"
    settings = {"image_aliases": {"us-docker.pkg.dev/vertex-ai/*": IMAGE}, "storage_endpoint": store_url}
    with run_service(tmp_path, **settings) as service:
        job = _of_a_script(sdk_of(service), tmp_path, prebuilt, staging)
        job.submit()
        wait_until(lambda: job.state.name == "JOB_STATE_RUNNING", "the job runs")
        (launch,) = service.engine.launches()

    ((name, generation),) = [(each.name, each.generation) for each in staging.list_blobs()]
    spec = job.gca_resource.job_spec.worker_pool_specs[0].python_package_spec
    assert spec.executor_image_uri == prebuilt
    assert launch.image_id == IMAGE
    assert launch.command[-1].endswith("/run_package.py")
    assert launch.args == (
        f"--package=gs://{staging.name}/{name}#{generation}",
        "--module=aiplatform_custom_trainer_script.task",
        *("--", "--epochs", "3"),
    )
    assert launch.environment["A"] == "1"


def test_a_local_script_on_another_image_gets_its_package_below_gcs(
    sdk_of: SetUp, tmp_path: Path, staging: storage.Bucket
) -> None:
    with run_service(tmp_path) as service:
        job = _of_a_script(sdk_of(service), tmp_path, IMAGE, staging)
        job.submit()
        wait_until(lambda: job.state.name == "JOB_STATE_RUNNING", "the job runs")
        (launch,) = service.engine.launches()

    (package,) = [f"{staging.name}/{each.name}" for each in staging.list_blobs()]
    assert launch.command[3:6] == ("--folder=/gcs", f"--object={package}", "--")
    assert f"pip3 install -q --user /gcs/{package} && " in launch.command[-1]


def _of_a_script(sdk: Any, folder: Path, image: str, staging: storage.Bucket) -> Any:
    script = folder / "script.py"
    script.write_text("print('trained')")
    return sdk.CustomJob.from_local_script(
        display_name="a script",
        script_path=str(script),
        container_uri=image,
        args=["--epochs", "3"],
        environment_variables={"A": "1"},
        staging_bucket=f"gs://{staging.name}",
    )
