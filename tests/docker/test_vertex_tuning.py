"""Searches of Vertex AI in real containers, by Google's clients as they are published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from local_stack.stack import LocalStack
from tests.support.bed.vertex import create, ended
from tests.support.speed import scaled
from training_api.job.image_ref import ImageRef

pytestmark = pytest.mark.docker

#: It writes the file of cloudml-hypertune in its form: rising, the best value, falling. One size crashes it.
TRAINER = """
import argparse, json, os, time

parser = argparse.ArgumentParser()
for name, kind in (("rate", float), ("size", int), ("kind", str)):
    parser.add_argument(f"--{name}", type=kind, required=True)
values = parser.parse_args()
trial = os.environ["CLOUD_ML_TRIAL_ID"]
assert os.environ["AIP_MODEL_DIR"].endswith(f"/search/{trial}/model/"), os.environ["AIP_MODEL_DIR"]
path = os.environ.get("CLOUD_ML_HP_METRIC_FILE", "/tmp/hypertune/output.metrics")
os.makedirs(os.path.dirname(path), exist_ok=True)
lines = []
for step, value in enumerate((1.0, 2.0 - values.rate, 0.5), 1):
    report = {"timestamp": time.time(), "trial": trial, "accuracy": str(value), "global_step": str(step)}
    lines.append(json.dumps({**report, "checkpoint_path": ""}))
    with open(path, "w") as file:
        file.write("\\n".join(lines) + "\\n")
assert values.size != 2, "a size that crashes"
"""
#: What a user of the SDK writes.
OF_THE_SDK = """
import json, sys
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.cloud.aiplatform import hyperparameter_tuning as hpt

asked = json.load(sys.stdin)
aiplatform.init(location="us-central1", credentials=AnonymousCredentials(), **asked["init"])
trial = aiplatform.CustomJob("a trial", [asked["pool"]], base_output_dir=asked["folder"])
search = aiplatform.HyperparameterTuningJob(
    display_name="of the SDK",
    custom_job=trial,
    metric_spec={"accuracy": "maximize"},
    parameter_spec={
        "rate": hpt.DiscreteParameterSpec(values=[0.25, 0.5], scale=None),
        "size": hpt.IntegerParameterSpec(min=1, max=1, scale=None),
        "kind": hpt.CategoricalParameterSpec(values=["adam"]),
    },
    max_trial_count=2,
    parallel_trial_count=2,
    search_algorithm="grid",
)
search.run()
trials = [
    (trial.id, trial.state.name, trial.parameters[0].value, trial.final_measurement.metrics[0].value)
    for trial in search.trials
]
print(json.dumps([search.state.name, trials]))
"""


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_a_search_of_the_sdk_measures_its_trials(
    stack: LocalStack, pushed_image: ImageRef, transport: str
) -> None:
    settings = stack.settings
    endpoints = {"rest": f"{settings.training_url}/vertex", "grpc": f"127.0.0.1:{settings.grpc_port}"}
    asked = {
        "init": {
            "project": settings.project,
            "staging_bucket": f"gs://{settings.bucket}",
            "api_transport": transport,
            "api_endpoint": endpoints[transport],
        },
        "pool": {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "container_spec": {"image_uri": str(pushed_image), "command": ["python3", "-u", "-c", TRAINER]},
        },
        "folder": f"{settings.job_bucket}/search",
    }
    trusted = settings.certificates_dir / "authority.pem"

    done = subprocess.run(
        [sys.executable, "-c", OF_THE_SDK],
        input=json.dumps(asked),
        env={**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(trusted)},
        capture_output=True,
        text=True,
        timeout=scaled(180),
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    # The SDK asks for the best measurement, which is not the last.
    assert json.loads(done.stdout.splitlines()[-1]) == [
        "JOB_STATE_SUCCEEDED",
        [["1", "SUCCEEDED", 0.25, 1.75], ["2", "SUCCEEDED", 0.5, 1.5]],
    ]


#: It reports the number of its arguments, and refuses those of another branch.
TRAINER_OF_BRANCHES = """
import argparse, json, os, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--kind", required=True)
if "--kind=deep" in sys.argv:
    parser.add_argument("--layers", type=int, required=True)
    if "--layers=2" in sys.argv:
        parser.add_argument("--size", type=float, required=True)
parser.parse_args()
path = os.environ["CLOUD_ML_HP_METRIC_FILE"]
os.makedirs(os.path.dirname(path), exist_ok=True)
report = {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"], "global_step": "1"}
with open(path, "w") as file:
    file.write(json.dumps({**report, "accuracy": str(len(sys.argv) - 1), "checkpoint_path": ""}) + "\\n")
"""


def pool_of(image: ImageRef, trainer: str) -> dict[str, Any]:
    """Return a pool that runs ``trainer``, which is Python."""
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": str(image), "command": ["python3", "-u", "-c", trainer]},
    }


def test_a_grid_of_four_trials_finds_the_best_and_says_why_one_is_infeasible(
    locations: Any, stack: LocalStack, pushed_image: ImageRef
) -> None:
    study = {
        "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
        "parameters": [
            {"parameterId": "rate", "discreteValueSpec": {"values": [0.25, 0.5]}},
            {"parameterId": "size", "integerValueSpec": {"minValue": "1", "maxValue": "2"}},
            {"parameterId": "kind", "categoricalValueSpec": {"values": ["adam"]}},
        ],
        "algorithm": "GRID_SEARCH",
        "measurementSelectionType": "BEST_MEASUREMENT",
    }
    body = {
        "displayName": "real",
        "studySpec": study,
        "maxTrialCount": 4,
        "parallelTrialCount": 2,
        "maxFailedTrialCount": 3,
        "trialJobSpec": {
            "workerPoolSpecs": [pool_of(pushed_image, TRAINER)],
            "baseOutputDirectory": {"outputUriPrefix": f"{stack.settings.job_bucket}/search"},
        },
    }
    jobs = locations.hyperparameterTuningJobs()
    name = create(jobs, stack.settings.project, body)

    job = ended(jobs, name)

    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    found = [{each["parameterId"]: each["value"] for each in trial["parameters"]} for trial in job["trials"]]
    assert found == [{"rate": rate, "size": size, "kind": "adam"} for rate in (0.25, 0.5) for size in (1, 2)]
    for trial, values in zip(job["trials"], found, strict=True):
        if values["size"] == 2:
            assert trial["state"] == "INFEASIBLE"
            assert trial["infeasibleReason"].startswith(
                "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error."
            )
            assert "finalMeasurement" not in trial
        else:
            assert (trial["state"], trial["finalMeasurement"]["stepCount"]) == ("SUCCEEDED", "2")
            (metric,) = trial["finalMeasurement"]["metrics"]
            assert metric == {"metricId": "accuracy", "value": 2.0 - values["rate"]}
    custom = locations.customJobs().get(name=job["trials"][0]["customJob"]).execute()
    assert custom["state"] == "JOB_STATE_SUCCEEDED"
    assert jobs.delete(name=name).execute()["done"]


@pytest.mark.extended
def test_containers_get_the_arguments_whose_conditions_hold(
    locations: Any, stack: LocalStack, pushed_image: ImageRef
) -> None:
    size = {"parameterId": "size", "discreteValueSpec": {"values": [0.5, 2]}}
    layers = {
        "parameterId": "layers",
        "integerValueSpec": {"minValue": "1", "maxValue": "2"},
        "conditionalParameterSpecs": [{"parentIntValues": {"values": ["2"]}, "parameterSpec": size}],
    }
    kind = {
        "parameterId": "kind",
        "categoricalValueSpec": {"values": ["linear", "deep"]},
        "conditionalParameterSpecs": [
            {"parentCategoricalValues": {"values": ["deep"]}, "parameterSpec": layers}
        ],
    }
    study = {
        "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
        "parameters": [kind],
        "algorithm": "GRID_SEARCH",
    }
    body = {
        "displayName": "branches",
        "studySpec": study,
        "maxTrialCount": 9,
        "parallelTrialCount": 2,
        "trialJobSpec": {"workerPoolSpecs": [pool_of(pushed_image, TRAINER_OF_BRANCHES)]},
    }
    jobs = locations.hyperparameterTuningJobs()
    name = create(jobs, stack.settings.project, body)

    job = ended(jobs, name)

    assert (job["state"], job["studySpec"]) == ("JOB_STATE_SUCCEEDED", study), job
    found = [{each["parameterId"]: each["value"] for each in trial["parameters"]} for trial in job["trials"]]
    assert found == [
        {"kind": "linear"},
        {"kind": "deep", "layers": 1},
        {"kind": "deep", "layers": 2, "size": 0.5},
        {"kind": "deep", "layers": 2, "size": 2},
    ]
    for trial, values in zip(job["trials"], found, strict=True):
        assert trial["state"] == "SUCCEEDED", trial
        assert trial["finalMeasurement"]["metrics"] == [{"metricId": "accuracy", "value": len(values)}]
    assert jobs.delete(name=name).execute()["done"]
