"""From the stored specifications of before to those that are read without the request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.older_rows import form_1
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job
from training_service.store.jobs.stored_spec import spec_to_json
from training_service.store.upgrade.form_2 import to_form_2

IMAGE = {"masterConfig": {"imageUri": "registry.test/p/trainer:1"}}
PACKAGES = {
    "packageUris": ["gs://bucket/a.whl", "gs://bucket/b.whl"],
    "pythonModule": "trainer.task",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "args": ["--package=of the trainer"],
}
SEARCH = {
    "goal": "MINIMIZE",
    "algorithm": "RANDOM_SEARCH",
    "enableTrialEarlyStopping": True,
    "resumePreviousJobId": "earlier",
    "params": [
        {"parameterName": "x", "type": "DOUBLE", "minValue": -1, "maxValue": 1},
        {
            "parameterName": "y",
            "type": "INTEGER",
            "minValue": 1,
            "maxValue": 9,
            "scaleType": "UNIT_REVERSE_LOG_SCALE",
        },
        {"parameterName": "z", "type": "CATEGORICAL", "categoricalValues": ["a", "b"]},
        {"parameterName": "w", "type": "DISCRETE", "discreteValues": [1, 2.5], "minValue": 7},
    ],
}


@pytest.mark.parametrize(
    "request_",
    [
        IMAGE,
        {
            **IMAGE,
            "jobDir": "gs://bucket/job",
            "serviceAccount": "a@example.com",
            "region": "us-central1",
            "useChiefInTfConfig": True,
        },
        PACKAGES,
        {**IMAGE, "hyperparameters": SEARCH},
        {**PACKAGES, "hyperparameters": SEARCH},
    ],
    ids=["the least", "fields", "packages", "a study", "a study of packages"],
)
def test_a_specification_is_what_it_would_be_today(request_: dict[str, Any]) -> None:
    job = Job.model_validate({"jobId": "job", "trainingInput": request_})
    assert job.training_input is not None
    today = spec_to_json(job_spec_from_wire("project", job))

    assert to_form_2(form_1(today), job.training_input.to_wire()) == today


def test_packages_keep_the_generations_with_which_they_run() -> None:
    job = Job.model_validate({"jobId": "job", "trainingInput": PACKAGES})
    pinned = ["gs://bucket/a.whl#7", "gs://bucket/b.whl#8"]
    others = {uri.partition("#")[0]: uri for uri in pinned}
    today = spec_to_json(job_spec_from_wire("project", job).with_package_uris(others))

    assert to_form_2(form_1(today), PACKAGES)["packages"]["uris"] == pinned


@pytest.mark.parametrize("request_", [{}, {"hyperparameters": None}, {"hyperparameters": {"params": [{}]}}])
def test_what_cannot_be_converted_stays_and_says_why(request_: dict[str, Any]) -> None:
    job = Job.model_validate({"jobId": "job", "trainingInput": {**IMAGE, "hyperparameters": SEARCH}})
    before = form_1(spec_to_json(job_spec_from_wire("project", job)))

    after = to_form_2(before, request_)

    assert after.pop("unreadable").startswith("its specification cannot be converted: ")
    assert after == before
