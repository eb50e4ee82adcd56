"""Vertex AI's ``CustomJob``, field by field."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import pytest

from container_training.work.migration.custom_job import CustomJob, read_custom_job
from container_training.work.submission.job_request import job_request
from training_api.dialects.ml_v1.reader import job_spec_from_wire

MACHINE = {
    "machine_type": "n1-standard-8",
    "accelerator_type": "NVIDIA_TESLA_T4",
    "accelerator_count": 2,
}
IMAGE = "europe-docker.pkg.dev/p/t/wide:1"


def pool(**changes: Any) -> dict[str, Any]:
    return {"machine_spec": MACHINE, "replica_count": 1, "container_spec": {"image_uri": IMAGE}, **changes}


def read(spec: dict[str, Any], **job: Any) -> tuple[CustomJob, list[tuple[str, str]]]:
    """Return what is read, and what is to be decided."""
    found, said, _ = read_all(spec, **job)
    return found, said


def read_all(
    spec: dict[str, Any], **job: Any
) -> tuple[CustomJob, list[tuple[str, str]], list[tuple[str, Any]]]:
    """Return what is read, what is to be decided, and the options that only Vertex AI has."""
    said: list[tuple[str, str]] = []
    options: list[tuple[str, Any]] = []

    def option(name: str, value: Any, about: str, text: str) -> None:
        options.append((name, value))
        said.append((about, text))

    found = read_custom_job({"job_spec": spec, **job}, lambda about, text: said.append((about, text)), option)
    return found, said, options


def programs(training: dict[str, Any], **fields: Any) -> dict[str, tuple[str, list[str], list[str]]]:
    """Return image, command and arguments by role, as the service reads the request."""
    given = {name: value for name, value in training.items() if value not in ({}, [], None)}
    job = job_request({"jobId": "migrated", "trainingInput": given}, fields)
    replicas = job_spec_from_wire("demo-project", job).replicas
    return {
        each.replica.role.value: (str(each.image), list(each.command), list(each.args)) for each in replicas
    }


def camel(value: Any) -> Any:
    """Return a message in the spelling of JSON."""
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("_(.)", lambda m: m[1].upper(), key): camel(item) for key, item in value.items()}


def test_the_pools_are_the_roles_in_their_order() -> None:
    pools = [
        pool(disk_spec={"boot_disk_size_gb": 200}),
        pool(replica_count=3, container_spec={"image_uri": IMAGE, "args": ["--worker", 1]}),
        {},
        pool(machine_spec={"machine_type": "n1-highcpu-8"}, container_spec={"image_uri": "other"}),
    ]

    training = read({"worker_pool_specs": pools})[0].training

    accelerators = {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 2}}
    assert training["masterConfig"] == {
        "imageUri": IMAGE,
        **accelerators,
        "diskConfig": {"bootDiskSizeGb": 200},
    }
    assert (training["workerCount"], training["workerType"]) == ("3", "n1-standard-8")
    assert training["workerConfig"] == {**accelerators, "containerArgs": ["--worker", "1"]}
    assert not {"parameterServerType", "parameterServerCount"} & training.keys()
    assert (training["evaluatorCount"], training["evaluatorConfig"]) == ("1", {"imageUri": "other"})
    assert training["useChiefInTfConfig"] is True


@pytest.mark.parametrize(
    ("master", "worker"),
    [
        ({"args": ["--a"]}, {"args": ["--b"]}),
        ({"args": ["--a"]}, {}),
        ({}, {"args": ["--b"]}),
        ({"args": ["--a"]}, {"args": ["--a"]}),
        ({"args": ["--a"]}, {"command": ["run"], "args": ["--a"]}),
        ({"command": ["run"], "args": ["--a"]}, {"command": ["run"], "args": ["--a"]}),
        ({"command": ["run"], "args": ["--a"]}, {"args": ["--a"]}),
        ({"command": ["run"]}, {"command": ["walk"]}),
        ({"command": ["run"], "args": ["--a"]}, None),
        ({"args": ["--a"]}, None),
    ],
)
def test_every_role_runs_the_command_and_arguments_of_its_pool(
    master: dict[str, Any], worker: dict[str, Any] | None
) -> None:
    pools = [pool(container_spec={"image_uri": IMAGE, **master})]
    expected = {"master": (IMAGE, master.get("command", []), master.get("args", []))}
    if worker is not None:
        pools.append(pool(replica_count=2, container_spec={"image_uri": IMAGE, **worker}))
        expected["worker"] = (IMAGE, worker.get("command", []), worker.get("args", []))

    training = read({"worker_pool_specs": pools})[0].training

    assert programs(dict(training)) == expected


def test_arguments_that_only_a_run_can_tell_stay_one_text_for_every_role() -> None:
    container = {"image_uri": IMAGE, "args": "{{ params.args }}"}
    pools = [pool(container_spec=container), pool(container_spec={**container, "command": ["run"]})]

    training = read({"worker_pool_specs": pools})[0].training

    assert programs(dict(training)) == {
        "master": (IMAGE, [], ["{{ params.args }}"]),
        "worker": (IMAGE, ["run"], ["{{ params.args }}"]),
    }


PACKAGE = {
    "executor_image_uri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-2:latest",
    "package_uris": ["gs://bucket/trainer.tar.gz"],
    "python_module": "trainer.task",
    "args": ["--epochs", 3],
}


@pytest.mark.parametrize(
    ("master", "worker", "left_out"),
    [
        ({"python_package_spec": PACKAGE}, {"python_package_spec": PACKAGE}, ""),
        (
            {"python_package_spec": PACKAGE},
            {"python_package_spec": {**PACKAGE, "args": ["--b"]}},
            "python_package_spec.args=['--b']",
        ),
        (
            {"python_package_spec": PACKAGE},
            {"python_package_spec": {**PACKAGE, "python_module": "trainer.other"}},
            "python_package_spec.python_module='trainer.other'",
        ),
        (
            {"python_package_spec": PACKAGE},
            {"container_spec": {"image_uri": IMAGE, "command": ["run"]}},
            f"container_spec={{'image_uri': '{IMAGE}'",
        ),
        (
            {"container_spec": {"image_uri": IMAGE}},
            {"python_package_spec": PACKAGE},
            "python_package_spec={'executor_image_uri'",
        ),
    ],
)
def test_a_pool_that_cannot_run_beside_the_masters_packages_is_said(
    master: dict[str, Any], worker: dict[str, Any], left_out: str
) -> None:
    machine = {"machine_spec": MACHINE, "replica_count": 1}

    found, said = read({"worker_pool_specs": [{**machine, **master}, {**machine, **worker}]})

    texts = [text for about, text in said if about == "worker_config"]
    assert [
        text.startswith(f"custom_job has job_spec.worker_pool_specs[1].{left_out}") for text in texts
    ] == ([True] if left_out else []), texts
    fields = {"runtime_version": "2.2", "python_version": "3.7"} if found.container else {}
    assert programs(dict(found.training), **fields).keys() == {"master", "worker"}


def test_packages_are_those_of_the_master_with_the_image_that_runs_them() -> None:
    package = {
        "executor_image_uri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-2:latest",
        "package_uris": ["gs://b/trainer.tar.gz"],
        "python_module": "trainer.task",
        "args": ["--epochs", 3],
    }

    found, said = read(
        {"worker_pool_specs": [{"machine_spec": MACHINE, "replica_count": 1, "python_package_spec": package}]}
    )

    assert found.container == package["executor_image_uri"]
    assert found.training["packageUris"] == ["gs://b/trainer.tar.gz"]
    assert (found.training["pythonModule"], found.training["args"]) == ("trainer.task", ["--epochs", "3"])
    assert said == []


@pytest.mark.parametrize(
    ("timeout", "expected"), [("3600s", "3600s"), (3600, "3600s"), ({"seconds": 60}, "60s"), (None, None)]
)
def test_the_rest_of_the_job_has_its_fields(timeout: Any, expected: str | None) -> None:
    found, said = read(
        {
            "worker_pool_specs": [pool()],
            "scheduling": {"timeout": timeout} if timeout else {},
            "service_account": "trainer@p.iam.gserviceaccount.com",
            "network": "projects/1/global/networks/n",
            "enable_web_access": True,
            "base_output_directory": {"output_uri_prefix": "gs://b/out"},
        },
        labels={"team": "a"},
        encryption_spec={"kms_key_name": "key"},
    )

    assert found.training["scheduling"] == ({"maxRunningTime": expected} if expected else {})
    assert found.training["serviceAccount"].startswith("trainer@")
    assert found.training["enableWebAccess"] is True
    assert found.training["encryptionConfig"] == {"kmsKeyName": "key"}
    assert (found.labels, found.folder, said) == ({"team": "a"}, "gs://b/out", [])


def test_both_spellings_of_the_names_are_read() -> None:
    spec = {
        "worker_pool_specs": [pool(), pool(replica_count=2)],
        "scheduling": {"timeout": "60s", "unknown_field": True},
        "base_output_directory": {"output_uri_prefix": "gs://b/out"},
    }

    snake, _ = read(spec)
    found: list[tuple[str, str]] = []
    in_json = read_custom_job({"jobSpec": camel(spec)}, lambda *said: found.append(said), mock.Mock())

    assert in_json == snake
    assert any("jobSpec" not in text and "unknownField=True" in text for _, text in found)


@pytest.mark.parametrize(
    ("spec", "about", "text"),
    [
        ({"experiment": "e"}, "dag", "custom_job has job_spec.experiment='e'"),
        (
            {"worker_pool_specs": [pool(nfs_mounts=[1])]},
            "dag",
            "custom_job has job_spec.worker_pool_specs[0].nfs_mounts=[1]",
        ),
        ({"worker_pool_specs": "POOLS"}, "dag", "custom_job has job_spec.worker_pool_specs[0]='POOLS'"),
        (
            {"worker_pool_specs": [pool(container_spec={"env": [{"name": "A", "value": "1"}]})]},
            "args",
            "env=[{'name': 'A', 'value': '1'}]: a job has no variables of its own",
        ),
        ({"tensorboard": "projects/t"}, "collect", "tensorboard='projects/t': summaries in the job's folder"),
        (
            {"worker_pool_specs": [pool(), pool(replica_count=2)]},
            "worker_count",
            "CLUSTER_SPEC calls this role worker",
        ),
        ({"worker_pool_specs": [pool()] * 5}, "dag", "custom_job has job_spec.worker_pool_specs[4]"),
    ],
)
def test_what_has_no_counterpart_is_said_with_its_place(spec: dict[str, Any], about: str, text: str) -> None:
    _, said = read(spec)

    assert [each for each in said if each[0] == about and each[1].startswith(text)], said


def test_what_only_vertex_ai_has_is_an_option_of_it() -> None:
    affinity = {"reservation_affinity_type": "SPECIFIC_RESERVATION", "key": "k", "values": ["projects/p/r"]}
    variables = {"image_uri": IMAGE, "env": [{"name": "A", "value": 1}]}
    spec = {
        "worker_pool_specs": [
            pool(
                machine_spec={**MACHINE, "reservation_affinity": affinity},
                container_spec=variables,
                nfs_mounts=[{"server": "s", "path": "/p", "mountPoint": "m"}],
            )
        ],
        "scheduling": {"strategy": "SPOT", "restart_job_on_worker_restart": True, "disable_retries": True},
        "persistent_resource_id": "mine",
    }

    for written in (spec, camel(spec)):
        _, said, options = read_all(written)

        assert dict(options) == {
            "strategy": "SPOT",
            "restart_job_on_worker_restart": True,
            "disable_retries": True,
            "persistent_resource_id": "mine",
            "reservation": ["projects/p/r"],
            "nfs_mounts": [{"server": "s", "path": "/p", "mount_point": "m"}],
            "env_of_roles": {"master": {"A": "1"}},
        }
        assert len(said) == len(options)


@pytest.mark.parametrize(("kind", "word"), [("ANY_RESERVATION", "ANY"), ("NO_RESERVATION", "NONE")])
def test_reservations_in_general_are_words(kind: str, word: str) -> None:
    machine = {**MACHINE, "reservation_affinity": {"reservation_affinity_type": kind}}

    _, _, options = read_all({"worker_pool_specs": [pool(machine_spec=machine)]})

    assert options == [("reservation", word)]
