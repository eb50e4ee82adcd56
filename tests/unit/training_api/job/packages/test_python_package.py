"""Jobs of Python packages: their rules, their image and their arguments."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.dialects.ml_v1.reader import accepted_job_spec, job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import InvalidJobSpec
from training_api.job.image_ref import parse_image_ref
from training_api.job.job_spec import JobSpec
from training_api.job.packages.python_package import runtime_image, runtime_of

URI = "gs://bkt/job/0123/trainer-0.0.0.tar.gz"
PACKAGE = {
    "packageUris": [URI],
    "pythonModule": "trainer.task",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
}
RUNTIMES = {"2.1": ("3.7",), "2.11": ("3.7", "3.10")}


def make_job(**changes: Any) -> Job:
    return Job(job_id="job", training_input=TrainingInput.model_validate(PACKAGE | changes))


def violations_of(**changes: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as caught:
        job_spec_from_wire("demo", make_job(**changes), RUNTIMES)
    return [(violation.field, violation.description) for violation in caught.value.violations]


def good(**changes: Any) -> JobSpec:
    return job_spec_from_wire("demo", make_job(**changes), RUNTIMES)


def test_the_master_runs_the_image_of_the_runtime_version_with_the_packages_as_arguments() -> None:
    spec = good(args=["--epochs", "3"], jobDir="gs://bkt/out")

    assert runtime_of(spec.master.image) == "2.11"
    assert spec.master.command == ()
    assert spec.master.args == (
        f"--package={URI}",
        "--module=trainer.task",
        "--runtime-version=2.11",
        "--python-version=3.7",
        "--",
        *("--epochs", "3", "--job-dir", "gs://bkt/out"),
    )


def test_the_name_of_a_runtime_image_can_be_read_as_one() -> None:
    image = good().master.image

    assert parse_image_ref(str(image)) == image
    assert runtime_of(parse_image_ref("gcr.io/demo/train:2.11")) is None


@pytest.mark.parametrize("name", PACKAGE)
@pytest.mark.parametrize("nothing", [None, ""])
def test_without_an_image_every_field_of_a_package_is_required(name: str, nothing: str | None) -> None:
    value = [] if name == "packageUris" else nothing

    assert violations_of(**{name: value}) == [
        (f"trainingInput.{name}", "is required without masterConfig.imageUri")
    ]


def test_a_runtime_version_alone_is_no_job() -> None:
    nothing = {"packageUris": None, "pythonModule": None, "pythonVersion": None}

    assert [field for field, _ in violations_of(**nothing)] == [
        "trainingInput.packageUris",
        "trainingInput.pythonModule",
        "trainingInput.pythonVersion",
    ]


def test_with_an_image_no_field_of_a_package_is_taken() -> None:
    found = violations_of(masterConfig={"imageUri": "gcr.io/demo/train:1"})

    assert found == [
        (f"trainingInput.{name}", "cannot be set together with masterConfig.imageUri") for name in PACKAGE
    ]


@pytest.mark.parametrize(
    "uri",
    ["", "trainer.tar.gz", "gs://bkt", "gs://bkt/", "gs://B/p.whl", "gs://bkt/folder/", "https://bkt/p"],
)
def test_a_package_must_be_an_object(uri: str) -> None:
    assert violations_of(packageUris=[URI, uri]) == [
        (
            "trainingInput.packageUris[1]",
            f"must be an object in Cloud Storage, gs://BUCKET/NAME; got {uri!r}",
        )
    ]


@pytest.mark.parametrize("uri", ["gs://bkt/p.whl", "gs://bkt/p", "gs://bkt/a b/c d.tar.gz"])
def test_an_objects_name_may_be_almost_anything(uri: str) -> None:
    assert good(packageUris=[uri]).master.args[0] == f"--package={uri}"


def test_a_hundred_packages_are_taken_and_no_more() -> None:
    assert good(packageUris=[URI] * 100)
    assert violations_of(packageUris=[URI] * 101) == [
        ("trainingInput.packageUris", "must be at most 100; got 101")
    ]


@pytest.mark.parametrize(
    "module", ["trainer/task.py", "trainer.", ".task", "trainer task", "-c", "1st.task", "a\n"]
)
def test_a_module_must_be_a_dotted_name(module: str) -> None:
    assert violations_of(pythonModule=module) == [
        (
            "trainingInput.pythonModule",
            f"must be a module's dotted name, like trainer.task; got {module!r}",
        )
    ]


def test_an_unknown_runtime_version_is_refused_with_the_known_ones() -> None:
    assert violations_of(runtimeVersion="2.12") == [
        ("trainingInput.runtimeVersion", "must be one of 2.1, 2.11; got '2.12'")
    ]


@pytest.mark.parametrize("version", ["2", "latest", "2.11-gpu", " 2.11", "2.11.1.1"])
def test_a_runtime_version_has_a_form(version: str) -> None:
    assert violations_of(runtimeVersion=version) == [
        ("trainingInput.runtimeVersion", f"must be a version like 2.11; got {version!r}")
    ]


def test_a_python_version_must_be_one_that_the_runtime_has() -> None:
    assert good(pythonVersion="3.10")
    assert violations_of(pythonVersion="2.7") == [
        ("trainingInput.pythonVersion", "must be 3.7 or 3.10 with runtime version 2.11; got '2.7'")
    ]


def test_a_service_without_runtimes_says_so_and_a_client_takes_any_version() -> None:
    with pytest.raises(InvalidJobSpec, match="this service has no runtime images"):
        job_spec_from_wire("demo", make_job(), {})
    assert job_spec_from_wire("demo", make_job(runtimeVersion="9.9"))


def test_a_command_needs_an_image() -> None:
    assert violations_of(masterConfig={"containerCommand": ["sh"], "containerArgs": ["-c"]}) == [
        ("trainingInput.masterConfig.containerCommand", "cannot be set without imageUri"),
        ("trainingInput.masterConfig.containerArgs", "cannot be set without imageUri"),
    ]


def test_a_job_that_was_accepted_under_other_rules_can_still_be_read() -> None:
    spec = accepted_job_spec("demo", make_job(runtimeVersion="no version", pythonVersion=None))

    assert runtime_of(spec.master.image) == "unknown"
    assert runtime_image("") == spec.master.image
