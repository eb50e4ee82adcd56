"""The request that creates a job on Vertex AI, or every reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given

from tests.support.fakes.described_jobs import broken, described_jobs, make_job
from training_api.dialects.ml_v1 import trial_spec as ml_v1_trials
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.vertex_v1 import trial_spec as vertex_trials
from training_api.dialects.vertex_v1.reader import custom_job_spec, request_of
from training_api.dialects.vertex_v1.tuning.reader import tuning_job_spec, tuning_request_of
from training_api.dialects.vertex_v1.variables import expanded
from training_api.job.job_spec import JobSpec
from training_api.job.replica_spec import ReplicaSpec
from training_api.vertex_jobs.options import VertexOptions
from training_api.vertex_jobs.writer import VertexRequest, vertex_request
from training_service.api.vertex_v1.canonical import canonical

#: The writer's texts must not be expanded by what containers have, but for a trial's number.
VARIABLES = {"A": "expanded!", "CLOUD_ML_TRIAL_ID": "7"}


def served(request: VertexRequest) -> tuple[JobSpec, dict[str, Any]]:
    """Return what this project's own service makes of a request, and what it stores."""
    if request.collection == "customJobs":
        stored = request_of(canonical("CustomJob", request.body))
        return custom_job_spec("demo", "us-central1", "1", stored), stored
    stored = tuning_request_of(canonical("HyperparameterTuningJob", request.body))
    return tuning_job_spec("demo", "us-central1", "1", stored), stored


def as_run(replicas: tuple[ReplicaSpec, ...]) -> list[ReplicaSpec]:
    """Return replicas with the words that their containers see."""
    return [
        replace(
            each,
            command=tuple(expanded(word, VARIABLES) for word in each.command),
            args=tuple(expanded(word, VARIABLES) for word in each.args),
        )
        for each in replicas
    ]


@given(described_jobs())
def test_the_same_job_runs_in_both_worlds(job: Job) -> None:
    here = job_spec_from_wire("demo", job)
    there, stored = served(vertex_request(job))
    if here.study and there.study:
        # Trials differ in their folders and their hyperparameters, which each dialect adds.
        of_ml_v1, of_vertex = here, there
        here, _ = ml_v1_trials.trial_of(of_ml_v1, {}, 7, {"p0": "1"})
        there, _ = vertex_trials.trial_of(of_vertex, stored, 7, {"p0": "1"})
        study = of_ml_v1.study
        assert study is not None
        parallel = min(study.max_parallel_trials, study.max_trials)
        assert of_vertex.study == replace(study, max_parallel_trials=parallel)
    else:
        assert (here.study, there.study) == (None, None)

    assert list(here.replicas) == as_run(there.replicas)
    assert (here.output_dir, here.service_account) == (there.output_dir, there.service_account)
    assert here.max_running == there.max_running
    assert here.labels == there.labels
    assert stored["displayName"] == job.job_id


def test_a_job_of_one_replica_is_a_custom_job_with_one_pool() -> None:
    request = vertex_request(make_job(args=["--x"], jobDir="gs://bkt/out", region="europe-west4"))

    assert request.collection == "customJobs"
    assert request.body == {
        "displayName": "train_1",
        "jobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "replicaCount": "1",
                    "containerSpec": {
                        "imageUri": "registry.test/p/i:1",
                        "args": ["--x", "--job-dir", "gs://bkt/out"],
                    },
                }
            ],
            "baseOutputDirectory": {"outputUriPrefix": "gs://bkt/out"},
        },
    }


def test_what_ml_v1_has_words_for_is_kept() -> None:
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    body = vertex_request(
        make_job(
            serviceAccount="a@b.c",
            network="projects/1/global/networks/n",
            encryptionConfig={"kmsKeyName": key},
            enableWebAccess=True,
            useChiefInTfConfig=False,
            scheduling={"maxRunningTime": "60s", "priority": 0},
        )
    ).body

    job_spec = {**body["jobSpec"]}
    del job_spec["workerPoolSpecs"]
    assert job_spec == {
        "serviceAccount": "a@b.c",
        "network": "projects/1/global/networks/n",
        "enableWebAccess": True,
        "scheduling": {"timeout": "60s"},
    }
    assert body["encryptionSpec"] == {"kmsKeyName": key}


def test_options_of_vertex_ai_are_written_and_are_good_messages() -> None:
    options = VertexOptions.of(
        {
            "strategy": "FLEX_START",
            "max_wait_duration": "0s",
            "reservation": ["projects/p/zones/z/reservations/r"],
            "persistent_resource_id": "my-machines",
            "network": "projects/1/global/networks/n",
            "nfs_mounts": [{"server": "10.0.0.1", "path": "/data", "mount_point": "data"}],
            "disable_retries": True,
            "restart_job_on_worker_restart": True,
            "env": {"A": "1", "B": "$(A)"},
            "env_of_roles": {"master": {"A": "2"}},
            "enable_web_access": True,
        }
    )
    body = vertex_request(make_job(), options).body

    assert body["jobSpec"] == {
        "workerPoolSpecs": [
            {
                "machineSpec": {
                    "machineType": "n1-standard-4",
                    "reservationAffinity": {
                        "reservationAffinityType": "SPECIFIC_RESERVATION",
                        "key": "compute.googleapis.com/reservation-name",
                        "values": ["projects/p/zones/z/reservations/r"],
                    },
                },
                "replicaCount": "1",
                "nfsMounts": [{"server": "10.0.0.1", "path": "/data", "mountPoint": "data"}],
                "containerSpec": {
                    "imageUri": "registry.test/p/i:1",
                    "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "$(A)"}],
                },
            }
        ],
        "scheduling": {
            "strategy": "FLEX_START",
            "maxWaitDuration": "0s",
            "disableRetries": True,
            "restartJobOnWorkerRestart": True,
        },
        "network": "projects/1/global/networks/n",
        "persistentResourceId": "my-machines",
        "enableWebAccess": True,
    }
    assert canonical("CustomJob", body) == body


def test_everything_that_cannot_be_is_told_at_once() -> None:
    job = Job.model_validate(
        {
            "jobId": "1",
            "labels": {"secret-key": "", "Team": "x"},
            "trainingInput": {
                "scaleTier": "STANDARD_1",
                "jobDir": "/tmp",
                "scheduling": {"maxWaitTime": "1800s", "priority": 9, "maxRunningTime": "1h"},
                "hyperparameters": {"resumePreviousJobId": "before", "params": []},
            },
        }
    )
    found = broken(job, VertexOptions(strategy="CHEAP", conditional_parameters={"x": []}))

    assert set(found) == {
        "jobId",
        "labels",
        "labels.secret-key",
        "vertex_options.strategy",
        "trainingInput.scaleTier",
        "trainingInput.jobDir",
        "trainingInput.masterConfig.imageUri",
        "trainingInput.scheduling.maxWaitTime",
        "trainingInput.scheduling.maxRunningTime",
        "trainingInput.scheduling.priority",
        "trainingInput.hyperparameters.params",
        "trainingInput.hyperparameters.resumePreviousJobId",
    }
    assert "container_training" in found["labels.secret-key"]
    assert "FLEX_START" in found["trainingInput.scheduling.maxWaitTime"]


def test_a_flex_start_job_waits_as_long_as_ml_v1_says() -> None:
    job = make_job(scheduling={"maxWaitTime": "1800s"})

    assert vertex_request(job, VertexOptions(strategy="FLEX_START")).body["jobSpec"]["scheduling"] == {
        "strategy": "FLEX_START",
        "maxWaitDuration": "1800s",
    }
    twice = broken(job, VertexOptions(strategy="FLEX_START", max_wait_duration="60s"))
    assert set(twice) == {"vertex_options.max_wait_duration"}


def test_a_network_is_said_once() -> None:
    one, other = "projects/1/global/networks/n", "projects/1/global/networks/m"

    assert set(broken(make_job(network=one), VertexOptions(network=other))) == {"vertex_options.network"}
    assert set(broken(make_job(), VertexOptions(network="n"))) == {"vertex_options.network"}
    assert vertex_request(make_job(network=one), VertexOptions(network=one)).body["jobSpec"]["network"] == one


def test_conditional_parameters_need_a_search() -> None:
    options = VertexOptions(conditional_parameters={"x": [{}]})

    assert set(broken(make_job(), options)) == {"vertex_options.conditional_parameters"}


def test_a_job_without_training_and_one_that_predicts_are_refused() -> None:
    assert set(broken(Job(job_id="a"))) == {"trainingInput"}
    assert set(broken(Job(job_id="a", prediction_input={}))) == {"trainingInput", "predictionInput"}
