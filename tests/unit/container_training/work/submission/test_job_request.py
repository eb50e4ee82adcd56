"""The roles of a job, field by field, over its file and its own form."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.work.submission.job_request import JobFields, job_request
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import InvalidJobSpec

IMAGE = "127.0.0.1:5000/demo/trainer:1"
#: One chief, two workers and a parameter server, as a DAG describes them.
CLUSTER: dict[str, Any] = {
    "image": IMAGE,
    "master_type": "n1-standard-4",
    "worker_type": "n1-standard-8",
    "worker_count": 2,
    "worker_config": {"image_uri": f"{IMAGE}-worker"},
    "parameter_server_type": "n1-standard-4",
    "parameter_server_count": "1",
    "parameter_server_config": {"imageUri": f"{IMAGE}-ps", "container_args": ["--port", "2222"]},
    "use_chief_in_tf_config": "true",
}


def make_request(job: dict[str, Any] | None = None, file: dict[str, Any] | None = None, **fields: Any) -> Job:
    return job_request(job, JobFields(**fields), file)


def training_of(job: Job) -> dict[str, Any]:
    wire: dict[str, Any] = job.to_wire()["trainingInput"]
    return wire


def test_every_role_is_on_the_wire_under_its_name() -> None:
    training = training_of(make_request(**CLUSTER))

    assert training == {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": IMAGE},
        "workerType": "n1-standard-8",
        "workerCount": "2",
        "workerConfig": {"imageUri": f"{IMAGE}-worker"},
        "parameterServerType": "n1-standard-4",
        "parameterServerCount": "1",
        "parameterServerConfig": {"imageUri": f"{IMAGE}-ps", "containerArgs": ["--port", "2222"]},
        "useChiefInTfConfig": True,
    }


def test_the_request_of_a_cluster_is_the_job_that_the_service_runs() -> None:
    request = make_request(**CLUSTER, evaluator_type="n1-standard-4", evaluator_count=1)

    spec = job_spec_from_wire("demo", request.model_copy(update={"job_id": "cluster_1"}))

    assert [(replica.replica.task_name, str(replica.image)) for replica in spec.replicas] == [
        ("master-replica-0", IMAGE),
        ("worker-replica-0", f"{IMAGE}-worker"),
        ("worker-replica-1", f"{IMAGE}-worker"),
        ("ps-replica-0", f"{IMAGE}-ps"),
        ("evaluator-replica-0", IMAGE),
    ]
    assert spec.use_chief


@pytest.mark.parametrize("empty", [None, ""])
def test_what_a_template_leaves_empty_is_left_to_the_file(empty: Any) -> None:
    file = {
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "workerType": "n1-standard-4",
            "workerCount": "3",
            "workerConfig": {"imageUri": IMAGE},
        }
    }

    training = training_of(
        make_request(
            file=file,
            worker_type=empty,
            worker_count=empty,
            worker_config={"image_uri": empty},
            use_chief_in_tf_config=empty,
        )
    )

    assert training == file["trainingInput"] | {"region": "us-central1"}


def test_none_of_a_role_and_no_chief_override_the_file() -> None:
    file = {"trainingInput": {"workerCount": "3", "useChiefInTfConfig": True}}

    training = training_of(make_request(file=file, worker_count=0, use_chief_in_tf_config=False))

    assert (training["workerCount"], training["useChiefInTfConfig"]) == ("0", False)


def test_a_configuration_is_merged_member_by_member() -> None:
    job = {"trainingInput": {"masterConfig": {"diskConfig": {"bootDiskSizeGb": 50}}}}
    file = {"trainingInput": {"workerConfig": {"containerArgs": ["--slow"], "imageUri": f"{IMAGE}-old"}}}

    training = training_of(
        make_request(
            job,
            file,
            image=IMAGE,
            master_config={"accelerator_config": {"type": "NVIDIA_TESLA_T4", "count": 1}},
            worker_config={"image_uri": f"{IMAGE}-new"},
        )
    )

    assert training["masterConfig"] == {
        "imageUri": IMAGE,
        "diskConfig": {"bootDiskSizeGb": 50},
        "acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": "1"},
    }
    assert training["workerConfig"] == {"containerArgs": ["--slow"], "imageUri": f"{IMAGE}-new"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"worker_count": "two"}, "trainingInput.workerCount"),
        ({"parameter_server_count": True}, "trainingInput.parameterServerCount"),
        ({"evaluator_type": 4}, "trainingInput.evaluatorType"),
        ({"worker_config": "image"}, "trainingInput.workerConfig"),
        ({"worker_config": {"image": IMAGE}}, "trainingInput.workerConfig.image"),
        ({"evaluator_config": {"disk_config": {"size": 1}}}, "trainingInput.evaluatorConfig.diskConfig.size"),
        ({"use_chief_in_tf_config": "perhaps"}, "trainingInput.useChiefInTfConfig"),
        ({"master_config": "image"}, "masterConfig"),
    ],
)
def test_a_bad_value_is_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidJobSpec) as caught:
        make_request(image=IMAGE, **fields)

    assert [violation.field for violation in caught.value.violations] == [field]


def test_secrets_travel_as_labels_beside_the_others() -> None:
    secrets = {"wandb-key": "WANDB_API_KEY", "ca": ""}

    job = make_request(file={"labels": {"team": "a"}}, image=IMAGE, trainer_secrets=secrets)

    assert job.labels == {"team": "a", "secret-wandb-key": "wandb_api_key", "secret-ca": ""}
