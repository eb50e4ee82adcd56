"""What a job runs, as it is stored and read back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.support.fakes.custom_jobs import make_custom_job, make_package_pool, make_pool
from tests.support.fakes.vertex_tuning_jobs import RATE, make_study, make_tuning_job
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.trial_spec import trial_spec
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.dialects.vertex_v1.tuning.reader import tuning_job_spec
from training_api.job.job_spec import JobSpec
from training_service.store.jobs.stored_spec import (
    UNREADABLE,
    mapping_of,
    spec_from_json,
    spec_to_json,
    waits_until_us,
)

IMAGE = {"imageUri": "registry.test/p/trainer:1"}
GPU = {"imageUri": f"registry.test/p/gpu@sha256:{'a' * 64}", "containerCommand": ["train", "--fast"]}
SEARCH = {
    "goal": "MINIMIZE",
    "maxTrials": 7,
    "maxParallelTrials": 2,
    "enableTrialEarlyStopping": True,
    "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1}],
}
REQUESTS: dict[str, dict[str, Any]] = {
    "the least": {"masterConfig": IMAGE},
    "a tier": {"scaleTier": "STANDARD_1", "masterConfig": IMAGE, "args": ["--epochs", "3"]},
    "limits": {
        "masterConfig": IMAGE,
        "scheduling": {"maxWaitTime": "3600.5s", "maxRunningTime": "7200s", "priority": 9},
    },
    "many roles": {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-8",
        "masterConfig": GPU | {"acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}},
        "workerType": "n1-highmem-4",
        "workerCount": "5",
        "workerConfig": IMAGE | {"containerArgs": ["--role", "worker"]},
        "parameterServerType": "n1-standard-4",
        "parameterServerCount": 2,
        "evaluatorType": "n1-standard-4",
        "evaluatorCount": 1,
        "jobDir": "gs://bucket/job",
    },
    "packages": {
        "packageUris": ["gs://bucket/p.tar.gz"],
        "pythonModule": "trainer.task",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "jobDir": "gs://bucket/job",
        "args": ["--epochs", "3"],
    },
    "a study": {"masterConfig": IMAGE, "hyperparameters": SEARCH, "jobDir": "gs://bucket/job"},
}


def make_spec(name: str) -> JobSpec:
    request = TrainingInput.model_validate(REQUESTS[name])
    job = Job(
        job_id="job", labels={"team": "a", "secret-ca": "", "secret-key": "api_key"}, training_input=request
    )
    return job_spec_from_wire("project", job)


def read_back(spec: JobSpec, **changes: Any) -> JobSpec:
    """Return ``spec`` as it is after a life in the database."""
    stored = json.loads(json.dumps(spec_to_json(spec) | changes))
    return spec_from_json(
        stored,
        project=spec.project,
        job_id=spec.job_id,
        labels=spec.labels,
        priority=spec.priority,
        dialect=spec.dialect,
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_a_specification_is_read_back_as_it_was_decided(name: str) -> None:
    spec = make_spec(name)

    assert read_back(spec) == spec


def test_the_packages_of_a_pool_are_read_back() -> None:
    spec = custom_job_spec("project", "r", "1", make_custom_job(make_package_pool(), make_pool()))

    assert spec.master.installs
    assert read_back(spec) == spec


@pytest.mark.parametrize("name", ["many roles", "packages", "a study"])
def test_a_trial_is_read_back_with_its_own_arguments_and_folder(name: str) -> None:
    trial = trial_spec(make_spec(name), 3, {"lr": "0.5"})

    assert read_back(trial) == trial
    assert trial.study is None
    assert trial.output_dir == "gs://bucket/job/3"
    for replica in trial.replicas:
        assert replica.args[-3:] == ("--job-dir", "gs://bucket/job/3", "--lr=0.5")
        assert "gs://bucket/job" not in replica.args


def test_a_trial_without_a_folder_has_the_arguments_of_its_study_and_its_values() -> None:
    trial = trial_spec(make_spec("a tier"), 3, {"lr": "0.5", "units": "64"})

    assert trial.master.args == ("--epochs", "3", "--lr=0.5", "--units=64")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"form": 99}, "not of the form 2"),
        ({"form": None, "unreadable": "it has no image"}, "it has no image"),
        ({"roles": []}, "has no master"),
        ({"study": {"parameters": [], "goal": "FASTER"}}, "FASTER"),
    ],
)
def test_what_cannot_be_read_says_why(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_back(make_spec("the least"), **changes)


@pytest.mark.parametrize(
    "role",
    [
        {"machine": "n9-standard-1"},
        {"image": "no host"},
        {"role": "leader"},
        {"count": "two"},
        {"args": None},
        {"gpu": "ABACUS"},
    ],
)
def test_a_role_that_is_not_known_cannot_be_read(role: dict[str, Any]) -> None:
    spec = make_spec("the least")
    (master,) = spec_to_json(spec)["roles"]

    with pytest.raises(UNREADABLE):
        read_back(spec, roles=[master | role])


@pytest.mark.parametrize("stored", [None, [], "text", 3])
def test_json_that_is_no_object_is_empty(stored: object) -> None:
    assert mapping_of(stored) == {}


def test_a_job_waits_until_its_limit_or_for_ever() -> None:
    limit = timedelta(seconds=3600, milliseconds=500) // timedelta(microseconds=1)

    assert waits_until_us(1000, make_spec("limits")) == 1000 + limit
    assert waits_until_us(1000, make_spec("the least")) is None


def test_a_study_of_the_other_dialect_comes_back_and_what_older_rows_lack_is_off() -> None:
    ending = {"minNumTrials": 1, "maxNumTrialsNoProgress": 2}
    stopping = {"useElapsedDuration": True}
    study = make_study(
        medianAutomatedStoppingSpec=stopping,
        measurementSelectionType="BEST_MEASUREMENT",
        studyStoppingConfig=ending,
    )
    spec = tuning_job_spec("p", "us-central1", "1", make_tuning_job(study=study))
    stored = json.loads(json.dumps(spec_to_json(spec)))
    given: dict[str, Any] = {
        "project": "p",
        "job_id": "1",
        "dialect": spec.dialect,
        "labels": {},
        "priority": 0,
    }

    assert spec_from_json(stored, **given) == spec
    for name in ("min_trials", "max_trials_without_progress", "stops_by_seconds"):
        del stored["study"][name]
    older = spec_from_json(stored, **given).study
    assert older is not None
    assert (older.min_trials, older.max_trials_without_progress, older.stops_by_seconds) == (0, 0, False)


def test_conditions_come_back_and_parameters_without_are_stored_as_before() -> None:
    layers = {
        "parameterId": "layers",
        "integerValueSpec": {"minValue": "1", "maxValue": "3"},
        "conditionalParameterSpecs": [{"parentIntValues": {"values": ["2", "3"]}, "parameterSpec": RATE}],
    }
    study = make_study(layers, algorithm="RANDOM_SEARCH")
    spec = tuning_job_spec("p", "us-central1", "1", make_tuning_job(study=study))

    assert read_back(spec) == spec
    parent, child = spec_to_json(spec)["study"]["parameters"]
    assert "condition" not in parent  # as in a row of an earlier version
    assert child["condition"] == {"parent": "layers", "values": [2, 3]}
