"""From a CustomJob to a job: what is read, and what is refused, by the path of the field."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.fakes.custom_jobs import IMAGE, make_custom_job, make_pool
from training_api.dialects.vertex_v1.job_rules import NOT_HERE as NOT_HERE_OF_JOBS
from training_api.dialects.vertex_v1.pool_machines import NOT_HERE as NOT_HERE_OF_MACHINES
from training_api.dialects.vertex_v1.pools import NOT_HERE as NOT_HERE_OF_POOLS
from training_api.dialects.vertex_v1.reader import custom_job_spec, request_of
from training_api.errors import InvalidJobSpec
from training_api.job.accelerators import Accelerator
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import RestartScope


def read(request: dict[str, Any]) -> JobSpec:
    return custom_job_spec("demo", "us-central1", "123", request)


def broken(request: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidJobSpec) as caught:
        read(request)
    return {each.field: each.description for each in caught.value.violations}


def with_machine(**machine: Any) -> dict[str, Any]:
    return make_custom_job({**make_pool(), "machineSpec": machine})


def with_scheduling(**scheduling: Any) -> dict[str, Any]:
    return make_custom_job(scheduling=scheduling)


def test_the_pools_are_the_chief_workers_parameter_servers_and_evaluators() -> None:
    pools = [make_pool(), make_pool(2, "e2-standard-4"), {}, make_pool(1, "n2-highmem-8")]
    spec = read(make_custom_job(*pools))

    assert [str(each.replica) for each in spec.replicas] == [
        "master 0",
        "worker 0",
        "worker 1",
        "evaluator 0",
    ]
    assert [each.machine.name for each in spec.replicas] == [
        "n1-standard-4",
        "e2-standard-4",
        "e2-standard-4",
        "n2-highmem-8",
    ]
    assert (spec.dialect, spec.project, spec.region, spec.job_id) == (
        "vertex_v1",
        "demo",
        "us-central1",
        "123",
    )


def test_each_pool_has_its_own_image_command_and_arguments() -> None:
    pool = make_pool(1, imageUri="registry.test/p/other:2", command=["python3"], args=["-m", "t"])
    chief, worker = read(make_custom_job(make_pool(), pool)).replicas

    assert (str(chief.image), chief.command, chief.args) == (IMAGE, (), ())
    assert (str(worker.image), worker.command, worker.args) == (
        "registry.test/p/other:2",
        ("python3",),
        ("-m", "t"),
    )


def test_what_is_output_only_is_ignored() -> None:
    job = make_custom_job() | {"name": "n", "state": "JOB_STATE_FAILED", "createTime": "2026-01-01T00:00:00Z"}

    assert request_of(job) == make_custom_job()


def test_an_account_a_folder_and_labels_are_read() -> None:
    base = "gs://bucket/aiplatform-custom-job-2026-11-21-20:57:00.963"
    spec = read(
        make_custom_job(
            labels={"team": "", "größe": "ü"},
            serviceAccount="a@demo.iam.gserviceaccount.com",
            baseOutputDirectory={"outputUriPrefix": base},
        )
    )

    assert (spec.service_account, spec.output_dir) == ("a@demo.iam.gserviceaccount.com", base)
    assert spec.labels == {"team": "", "größe": "ü"}


# --- scheduling


@pytest.mark.parametrize(
    ("scheduling", "max_wait", "max_running"),
    [
        ({}, None, timedelta(days=7)),
        ({"timeout": "3600s"}, None, timedelta(hours=1)),
        ({"timeout": "1.500s", "strategy": "SPOT"}, None, timedelta(seconds=1.5)),
        ({"maxWaitDuration": "60s"}, None, timedelta(days=7)),
        ({"strategy": "FLEX_START"}, timedelta(hours=24), timedelta(days=7)),
        ({"strategy": "FLEX_START", "maxWaitDuration": "60s"}, timedelta(minutes=1), timedelta(days=7)),
        ({"strategy": "FLEX_START", "maxWaitDuration": "0s"}, None, timedelta(days=7)),
    ],
)
def test_limits_are_those_of_the_scheduling(
    scheduling: dict[str, Any], max_wait: timedelta | None, max_running: timedelta
) -> None:
    spec = read(with_scheduling(**scheduling))

    assert (spec.max_wait, spec.max_running) == (max_wait, max_running)


@pytest.mark.parametrize(
    ("scheduling", "restarts"),
    [
        ({}, RestartScope.REPLICA),
        ({"restartJobOnWorkerRestart": True}, RestartScope.JOB),
        ({"disableRetries": True}, RestartScope.NONE),
        ({"disableRetries": True, "restartJobOnWorkerRestart": True}, RestartScope.NONE),
    ],
)
def test_what_is_started_again_is_as_the_scheduling_says(
    scheduling: dict[str, Any], restarts: RestartScope
) -> None:
    assert read(with_scheduling(**scheduling)).restarts is restarts


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("timeout", "0s", "must be more than 0s"),
        ("timeout", "-5s", "must be more than 0s"),
        ("timeout", "315576000000s", "must be at most 315360000s"),
        ("maxWaitDuration", "-5s", "must not be negative"),
    ],
)
def test_a_limit_that_is_none_is_refused(name: str, value: str, told: str) -> None:
    assert told in broken(with_scheduling(**{name: value}))[f"jobSpec.scheduling.{name}"]


# --- machines


@pytest.mark.parametrize(
    ("machine", "gpus", "gpu"),
    [
        ({"machineType": "n1-standard-4"}, 0, None),
        (
            {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2},
            2,
            Accelerator.NVIDIA_TESLA_T4,
        ),
        ({"machineType": "g2-standard-24"}, 2, Accelerator.NVIDIA_L4),
        (
            {"machineType": "a2-highgpu-1g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 1},
            1,
            Accelerator.NVIDIA_TESLA_A100,
        ),
    ],
)
def test_accelerators_are_attached_or_come_with_the_machine(
    machine: dict[str, Any], gpus: int, gpu: Accelerator | None
) -> None:
    (replica,) = read(with_machine(**machine)).replicas

    assert (replica.gpus, replica.gpu) == (gpus, gpu)


@pytest.mark.parametrize(
    ("machine", "field", "told"),
    [
        ({}, "machineType", "must be one of n1-standard-4, "),
        ({"machineType": "n1-highcpu-8"}, "machineType", "got 'n1-highcpu-8'"),
        ({"machineType": "complex_model_m"}, "machineType", "got 'complex_model_m'"),
        ({"machineType": "ct5lp-hightpu-1t"}, "machineType", "this service has no TPUs"),
        (
            {"machineType": "n1-standard-4", "acceleratorType": "TPU_V3", "acceleratorCount": 8},
            "acceleratorType",
            "no TPUs",
        ),
        (
            {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4"},
            "acceleratorCount",
            "together with",
        ),
        ({"machineType": "n1-standard-4", "acceleratorCount": 1}, "acceleratorType", "together with"),
        (
            {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 3},
            "acceleratorCount",
            "must be one of 1, 2, 4 for NVIDIA_TESLA_T4; got 3",
        ),
        (
            {"machineType": "e2-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1},
            "acceleratorType",
            "to machine types n1-* only",
        ),
        (
            {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1},
            "acceleratorType",
            "comes with machine types of its own",
        ),
        (
            {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_K80", "acceleratorCount": 1},
            "acceleratorType",
            "must be an accelerator that trains on Vertex AI",
        ),
        (
            {"machineType": "g2-standard-24", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1},
            "acceleratorCount",
            "g2-standard-24 comes with 2 x NVIDIA_L4; got 1 x NVIDIA_L4",
        ),
        (
            {
                "machineType": "n1-standard-4",
                "reservationAffinity": {"reservationAffinityType": "SPECIFIC_RESERVATION"},
            },
            "reservationAffinity",
            "this service has no reservations",
        ),
    ],
)
def test_a_machine_that_does_not_train_is_refused(machine: dict[str, Any], field: str, told: str) -> None:
    assert told in broken(with_machine(**machine))[f"jobSpec.workerPoolSpecs[0].machineSpec.{field}"]


# --- what is refused


@pytest.mark.parametrize("name", sorted(NOT_HERE_OF_JOBS))
def test_what_one_machine_does_not_have_is_refused_by_name(name: str) -> None:
    assert broken(make_custom_job(**{name: "x"})) == {f"jobSpec.{name}": NOT_HERE_OF_JOBS[name]}


@pytest.mark.parametrize("name", sorted(NOT_HERE_OF_POOLS))
def test_what_pools_do_not_have_is_refused_by_name(name: str) -> None:
    found = broken(make_custom_job({**make_pool(), name: {}}))

    assert found == {f"jobSpec.workerPoolSpecs[0].{name}": NOT_HERE_OF_POOLS[name]}


@pytest.mark.parametrize("name", sorted(NOT_HERE_OF_MACHINES))
def test_what_machines_do_not_have_is_refused_by_name(name: str) -> None:
    found = broken(with_machine(machineType="n1-standard-4", **{name: "x"}))

    assert found == {f"jobSpec.workerPoolSpecs[0].machineSpec.{name}": NOT_HERE_OF_MACHINES[name]}


@pytest.mark.parametrize(
    ("pools", "place", "told"),
    [
        ([{}], "[0]", "is required: the pool of the chief"),
        ([{}, make_pool()], "[0]", "is required"),
        ([make_pool(2)], "[0].replicaCount", "must be 1 in the first pool, which is the chief's; got 2"),
        (
            [make_pool(), make_pool(0)],
            "[1].replicaCount",
            "must be at least 1, or the pool {}, which skips it",
        ),
        (
            [make_pool(), make_pool(200)],
            "",
            "may have at most 128 replicas here, all pools together; got 201",
        ),
        ([make_pool()] * 5, "", "must be at most 4"),
        (
            [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}],
            "[0].containerSpec",
            "is required",
        ),
        ([make_pool(imageUri="")], "[0].containerSpec.imageUri", "is required"),
        ([make_pool(imageUri="no host")], "[0].containerSpec.imageUri", "no host"),
        ([make_pool(env=[{"name": "1A"}])], "[0].containerSpec.env[0].name", "must be a C identifier"),
        ([make_pool(env=[{"name": "A"}] * 101)], "[0].containerSpec.env", "must be at most 100, got 101"),
        (
            [{**make_pool(), "diskSpec": {"bootDiskType": "ssd"}}],
            "[0].diskSpec.bootDiskType",
            "must be one of pd-ssd",
        ),
        (
            [{**make_pool(), "diskSpec": {"bootDiskSizeGb": -1}}],
            "[0].diskSpec.bootDiskSizeGb",
            "must not be negative",
        ),
    ],
)
def test_a_pool_that_breaks_a_rule_is_refused(pools: list[Any], place: str, told: str) -> None:
    assert told in broken(make_custom_job(*pools))[f"jobSpec.workerPoolSpecs{place}"]


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"displayName": ""}, "displayName", "is required"),
        ({"displayName": "x" * 129}, "displayName", "at most 128 characters; got 129"),
        ({"labels": {"Team": "a"}}, "labels", "key 'Team' must hold only lowercase letters"),
        ({"labels": {"team": "A"}}, "labels", "value 'A' of 'team'"),
        ({"labels": {"team": "a" * 65}}, "labels", "at most 64 long"),
        ({"labels": {f"k{number}": "" for number in range(65)}}, "labels", "must be at most 64, got 65"),
        ({"encryptionSpec": {"kmsKeyName": "key"}}, "encryptionSpec.kmsKeyName", "keyRings/RING"),
    ],
)
def test_a_name_or_a_label_that_breaks_a_rule_is_refused(changes: Any, field: str, told: str) -> None:
    assert told in broken({**make_custom_job(), **changes})[field]


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("serviceAccount", "nobody", "serviceAccount"),
        ("network", "default", "network"),
        ("baseOutputDirectory", {"outputUriPrefix": "/tmp"}, "baseOutputDirectory.outputUriPrefix"),
        ("baseOutputDirectory", {}, "baseOutputDirectory.outputUriPrefix"),
    ],
)
def test_a_form_that_is_wrong_is_refused(name: str, value: Any, field: str) -> None:
    assert list(broken(make_custom_job(**{name: value}))) == [f"jobSpec.{field}"]


def test_a_job_without_a_spec_is_refused() -> None:
    assert list(broken({"displayName": "job"})) == ["jobSpec"]


def test_every_broken_rule_is_told_at_once() -> None:
    job = make_custom_job(make_pool(2, "no-such"), tensorboard="t", scheduling={"timeout": "0s"})

    assert len(broken({**job, "displayName": ""})) == 5


def test_values_that_grow_without_bound_are_refused_before_they_are_made() -> None:
    doubling = [{"name": "A0", "value": "x" * 10}]
    doubling += [{"name": f"A{place}", "value": f"$(A{place - 1})" * 2} for place in range(1, 100)]

    found = broken(make_custom_job(make_pool(env=doubling)))

    assert "at most 1,048,576 characters" in found["jobSpec.workerPoolSpecs[0].containerSpec"]
    many = {"name": "BIG", "value": "x" * 500_000}
    assert broken(make_custom_job(make_pool(env=[many], args=["$(BIG)", "$(BIG)"])))


def test_a_variable_is_a_secret_or_a_value() -> None:
    pool = make_pool(env=[{"name": "WANDB_API_KEY", "value": "mine"}])

    found = broken(make_custom_job(pool, labels={"secret-wandb": "wandb_api_key"}))

    assert "WANDB_API_KEY is in the env of a pool, too" in found["labels.secret-wandb"]
