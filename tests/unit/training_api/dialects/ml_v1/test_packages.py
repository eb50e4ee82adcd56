"""The packages of a request in the project's own terms."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.dialects.ml_v1.packages import packages_from_wire
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.job.packages.python_package import PythonPackages

PACKAGES = {
    "packageUris": ["gs://bkt/a.whl", "gs://bkt/b.whl"],
    "pythonModule": "trainer.task",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
}


def test_packages_are_what_a_job_without_an_image_installs() -> None:
    assert packages_from_wire(TrainingInput.model_validate(PACKAGES)) == PythonPackages(
        uris=("gs://bkt/a.whl", "gs://bkt/b.whl"),
        module="trainer.task",
        runtime_version="2.11",
        python_version="3.7",
    )


@pytest.mark.parametrize("request_", [{}, {"masterConfig": {"imageUri": "gcr.io/demo/t:1"}}])
def test_a_job_with_an_image_has_none(request_: dict[str, Any]) -> None:
    assert packages_from_wire(TrainingInput.model_validate(request_)) is None


def test_other_packages_take_their_places_in_the_arguments() -> None:
    sent = {**PACKAGES, "args": ["--package=of the trainer"], "jobDir": "gs://bkt/job"}
    spec = job_spec_from_wire("demo", Job.model_validate({"jobId": "j", "trainingInput": sent}))

    pinned = spec.with_package_uris(
        {"gs://bkt/a.whl": "gs://bkt/a.whl#1", "gs://bkt/b.whl": "gs://bkt/b.whl#2"}
    )

    assert pinned.packages is not None
    assert pinned.packages.uris == ("gs://bkt/a.whl#1", "gs://bkt/b.whl#2")
    assert pinned.master.args == (
        "--package=gs://bkt/a.whl#1",
        "--package=gs://bkt/b.whl#2",
        *spec.master.args[2:],
    )
