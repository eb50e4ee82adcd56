"""Tiers, counts, types and images: which replicas a job has."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.replicas import MAX_REPLICAS
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.scale_tiers import TIER_SHAPES
from training_api.errors import InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_api.job.machines import MACHINE_TYPES, MachineFamily

IMAGE = "gcr.io/demo/train:1"
OTHER = "gcr.io/demo/other:1"
CLUSTER = {
    "scaleTier": "CUSTOM",
    "masterType": "n1-standard-4",
    "workerType": "n1-standard-8",
    "workerCount": "2",
    "parameterServerType": "n1-highmem-2",
    "parameterServerCount": 1,
    "evaluatorType": "n1-standard-4",
    "evaluatorCount": "1",
}
NO_TPU = "this service has no TPUs; use a machine type with CPUs or GPUs"


def make_spec(**training: Any) -> JobSpec:
    sent = {"masterConfig": {"imageUri": IMAGE}} | training
    return job_spec_from_wire("demo", Job(job_id="job", training_input=TrainingInput.model_validate(sent)))


def violations_of(**training: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as caught:
        make_spec(**training)
    return [
        (violation.field.removeprefix("trainingInput."), violation.description)
        for violation in caught.value.violations
    ]


def shape(spec: JobSpec) -> list[tuple[str, str, str]]:
    return [(each.replica.task_name, each.machine.name, str(each.image)) for each in spec.replicas]


def test_a_custom_cluster_has_its_replicas_in_the_order_of_the_roles() -> None:
    assert shape(make_spec(**CLUSTER)) == [
        ("master-replica-0", "n1-standard-4", IMAGE),
        ("worker-replica-0", "n1-standard-8", IMAGE),
        ("worker-replica-1", "n1-standard-8", IMAGE),
        ("ps-replica-0", "n1-highmem-2", IMAGE),
        ("evaluator-replica-0", "n1-standard-4", IMAGE),
    ]


def test_each_role_may_have_an_image_a_command_and_arguments_of_its_own() -> None:
    spec = make_spec(
        **CLUSTER,
        jobDir="gs://bucket/job",
        masterConfig={"imageUri": IMAGE, "containerArgs": ["--master"]},
        workerConfig={"imageUri": OTHER, "containerCommand": ["python", "worker.py"]},
        parameterServerConfig={"containerArgs": ["--ps"]},
    )

    job_dir = ("--job-dir", "gs://bucket/job")
    assert [(str(each.image), each.command, each.args) for each in spec.replicas] == [
        (IMAGE, (), ("--master", *job_dir)),
        (OTHER, ("python", "worker.py"), job_dir),
        (OTHER, ("python", "worker.py"), job_dir),
        (IMAGE, (), ("--ps", *job_dir)),
        (IMAGE, (), job_dir),
    ]


def test_args_go_to_every_replica() -> None:
    assert {each.args for each in make_spec(**CLUSTER, args=["-v"]).replicas} == {("-v",)}


@pytest.mark.parametrize("tier", list(TIER_SHAPES))
def test_a_tier_has_its_own_replicas(tier: str) -> None:
    expected = TIER_SHAPES[tier]  # type: ignore[index]  # a StrEnum is its text

    spec = make_spec(scaleTier=tier)

    replicas = [(each.replica.role, each.machine.name) for each in spec.replicas]
    assert replicas == [(role, machine) for role, (machine, count) in expected.items() for _ in range(count)]


@pytest.mark.parametrize("role", ["worker", "parameterServer", "evaluator"])
@pytest.mark.parametrize("tier", ["BASIC", "STANDARD_1"])
def test_counts_belong_to_custom_jobs(tier: str, role: str) -> None:
    assert violations_of(scaleTier=tier, **{f"{role}Count": 2, f"{role}Type": "n1-standard-4"}) == [
        (f"{role}Count", f"can only be set with scaleTier CUSTOM, not {tier}")
    ]


@pytest.mark.parametrize("role", ["worker", "parameterServer", "evaluator"])
def test_a_count_needs_its_type(role: str) -> None:
    sent = {key: value for key, value in CLUSTER.items() if key != f"{role}Type"}

    assert violations_of(**sent) == [(f"{role}Type", f"must be set when {role}Count is more than 0")]


@pytest.mark.parametrize("count", [-1, "-9223372036854775808"])
def test_a_count_is_not_negative(count: Any) -> None:
    assert violations_of(**CLUSTER | {"workerCount": count}) == [
        ("workerCount", f"must not be negative; got {count}")
    ]


@pytest.mark.parametrize("count", [MAX_REPLICAS, "9223372036854775807"])
def test_a_count_with_a_digit_too_many_is_refused(count: Any) -> None:
    ((field, description),) = violations_of(**CLUSTER | {"workerCount": count})

    assert field == "workerCount"
    assert description.startswith(f"a job may have at most {MAX_REPLICAS} replicas here")


def test_all_types_are_of_one_family() -> None:
    rule = f"must be of the same category as masterType 'n1-standard-4' ({MachineFamily.COMPUTE_ENGINE})"
    found = f"got 'large_model' ({MachineFamily.LEGACY})"

    assert violations_of(**CLUSTER | {"workerType": "large_model"}) == [("workerType", f"{rule}; {found}")]
    legacy = {"masterType": "standard", "workerType": "large_model", "workerCount": 1, "scaleTier": "CUSTOM"}
    assert len(make_spec(**legacy).replicas) == 2


def test_a_role_names_an_unknown_type_by_its_own_field() -> None:
    (violation,) = violations_of(**CLUSTER | {"parameterServerType": "m9"})

    assert violation[0] == "parameterServerType"
    assert violation[1].endswith("; got 'm9'")


def test_a_bad_image_of_a_role_is_named_by_its_own_field() -> None:
    (violation,) = violations_of(**CLUSTER, workerConfig={"imageUri": "trainer"})

    assert violation[0] == "workerConfig.imageUri"


@pytest.mark.parametrize(
    ("training", "field"),
    [
        ({"scaleTier": "BASIC_TPU"}, "scaleTier"),
        ({"scaleTier": "CUSTOM", "masterType": "cloud_tpu"}, "masterType"),
        ({**CLUSTER, "workerType": "cloud_tpu"}, "workerType"),
    ],
)
def test_tpus_are_refused_by_name(training: dict[str, Any], field: str) -> None:
    ((name, description),) = violations_of(**training)

    assert name == field
    assert description.startswith(NO_TPU)


def test_every_tier_is_made_of_known_machines() -> None:
    named = {machine for tier in TIER_SHAPES.values() for machine, _ in tier.values()}

    assert named <= set(MACHINE_TYPES)
