"""The worker pools of a job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.described_jobs import IMAGE, broken, make_job
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.vertex_jobs.options import NO_OPTIONS, VertexOptions
from training_api.vertex_jobs.writer import vertex_request

PACKAGES: dict[str, Any] = {"packageUris": ["gs://bkt/a.tar.gz"], "pythonModule": "trainer.task"}
RUNTIME = {"runtimeVersion": "2.11", "pythonVersion": "3.7"}
EXECUTOR = VertexOptions(executor_image_uri="us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-11:latest")


def pools(job: Job, options: VertexOptions = NO_OPTIONS) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = vertex_request(job, options).body["jobSpec"]["workerPoolSpecs"]
    return found


def of_packages(**more: Any) -> Job:
    return Job.model_validate({"jobId": "a", "trainingInput": {**PACKAGES, **more}})


def test_a_role_without_replicas_is_an_empty_pool_between_others() -> None:
    found = pools(
        make_job(
            scaleTier="CUSTOM",
            masterType="n1-standard-4",
            parameterServerType="n1-highmem-2",
            parameterServerCount=2,
        )
    )

    assert [each.get("replicaCount") for each in found] == ["1", None, "2"]
    assert found[1] == {}


def test_each_pool_names_its_image_and_runs_the_arguments() -> None:
    found = pools(
        make_job(
            scaleTier="CUSTOM",
            masterType="n1-standard-4",
            workerType="n4-standard-4",
            workerCount=1,
            evaluatorType="n1-standard-4",
            evaluatorCount=1,
            evaluatorConfig={"imageUri": "registry.test/p/evaluator:1"},
            workerConfig={"diskConfig": {"bootDiskType": "hyperdisk-balanced", "bootDiskSizeGb": 50}},
            args=["--epochs=1"],
        )
    )

    tasks = [each["containerSpec"] for each in found if each]
    assert [each["imageUri"] for each in tasks] == [IMAGE, IMAGE, "registry.test/p/evaluator:1"]
    assert [each["args"] for each in tasks] == [["--epochs=1"]] * 3
    assert found[1]["diskSpec"] == {"bootDiskType": "hyperdisk-balanced", "bootDiskSizeGb": 50}


def test_packages_are_installed_into_the_executors_image() -> None:
    by_option = pools(of_packages(**RUNTIME, args=["--x"], jobDir="gs://bkt/out"), EXECUTOR)
    by_image = pools(of_packages(masterConfig={"imageUri": IMAGE}), EXECUTOR)

    assert [each["pythonPackageSpec"] for each in by_option] == [
        {
            "executorImageUri": EXECUTOR.executor_image_uri,
            **PACKAGES,
            "args": ["--x", "--job-dir", "gs://bkt/out"],
        }
    ]
    assert [each["pythonPackageSpec"] for each in by_image] == [{"executorImageUri": IMAGE, **PACKAGES}]
    (replica,) = custom_job_spec(
        "demo", "us-central1", "1", vertex_request(of_packages(**RUNTIME), EXECUTOR).body
    ).replicas
    assert replica.installs is not None
    assert replica.installs.module == "trainer.task"


def test_a_runtime_version_alone_is_refused_with_the_way_out() -> None:
    found = broken(of_packages(**RUNTIME))

    assert set(found) == {"trainingInput.runtimeVersion"}
    assert "executor_image_uri" in found["trainingInput.runtimeVersion"]
    assert set(broken(make_job(**RUNTIME))) == {"trainingInput.runtimeVersion", "trainingInput.pythonVersion"}


def test_packages_have_the_rules_of_ml_v1() -> None:
    job = of_packages(
        packageUris=["/tmp/a"],
        pythonModule="a b",
        workerConfig={"containerArgs": ["x"]},
        masterType="n1-standard-4",
    )

    assert set(broken(job, EXECUTOR)) == {
        "trainingInput.packageUris[0]",
        "trainingInput.pythonModule",
        "trainingInput.workerConfig.containerArgs",
        "trainingInput.masterType",
    }


@pytest.mark.parametrize(
    ("training", "field"),
    [
        ({"scaleTier": "CUSTOM"}, "masterType"),
        ({"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "workerCount": 1}, "workerType"),
        ({"workerCount": 1}, "workerCount"),
        ({"args": ["a"], "masterConfig": {"imageUri": IMAGE, "containerArgs": ["b"]}}, "args"),
        ({"masterConfig": {"imageUri": "busybox"}}, "masterConfig.imageUri"),
        (
            {"masterConfig": {"imageUri": IMAGE, "diskConfig": {"bootDiskType": "floppy"}}},
            "masterConfig.diskConfig.bootDiskType",
        ),
    ],
)
def test_rules_of_ml_v1_hold_on_vertex_ai_too(training: dict[str, Any], field: str) -> None:
    assert set(broken(make_job(**training))) == {f"trainingInput.{field}"}
