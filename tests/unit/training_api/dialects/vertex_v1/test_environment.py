"""What a replica is told of its job."""

from __future__ import annotations

import json
from typing import Any

from tests.support.fakes.custom_jobs import PACKAGE, make_custom_job, make_package_pool, make_pool
from training_api.dialects.vertex_v1.environment import VARIABLES, environment, host_name
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.dialect import ReplicaContext
from training_api.job.project_number import project_number

CHIEF = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER, index=1)
EVALUATOR = ReplicaId(role=ReplicaRole.EVALUATOR)


def variables(job: dict[str, Any], replica: ReplicaId = CHIEF, trial_id: str = "") -> dict[str, str]:
    spec = custom_job_spec("demo", "us-central1", "123", job)
    return environment(ReplicaContext(spec=spec, request=job, replica=replica, trial_id=trial_id))


def test_a_single_replica_has_a_cluster_spec_and_no_tf_config() -> None:
    found = variables(make_custom_job())

    assert "TF_CONFIG" not in found
    assert json.loads(found["CLUSTER_SPEC"]) == {
        "cluster": {"workerpool0": [f"{host_name('123', CHIEF)}:2222"]},
        "environment": "cloud",
        "task": {"type": "workerpool0", "index": 0},
        "job": '{"python_module":"","package_uris":[],"job_args":[]}',
    }


def test_a_cluster_spec_names_all_pools_and_tf_config_all_but_evaluators() -> None:
    job = make_custom_job(make_pool(), make_pool(2), {}, make_pool())
    found = variables(job, WORKER)
    spec, tf_config = json.loads(found["CLUSTER_SPEC"]), json.loads(found["TF_CONFIG"])

    assert {name: len(hosts) for name, hosts in spec["cluster"].items()} == {
        "workerpool0": 1,
        "workerpool1": 2,
        "workerpool3": 1,
    }
    assert spec["task"] == {"type": "workerpool1", "index": 1}
    assert list(tf_config["cluster"]) == ["chief", "worker"]
    assert tf_config["task"] == {"type": "worker", "index": 1}
    assert json.loads(variables(job, EVALUATOR)["TF_CONFIG"])["task"]["type"] == "evaluator"


def test_a_job_of_packages_says_what_it_installs() -> None:
    found = variables(make_custom_job(make_package_pool(args=["--epochs=3"])))

    assert json.loads(json.loads(found["CLUSTER_SPEC"])["job"]) == {
        "python_module": "trainer.task",
        "package_uris": [PACKAGE],
        "job_args": ["--epochs=3"],
    }


def test_a_host_is_named_as_on_the_real_service() -> None:
    assert host_name("123", WORKER).startswith("cmle-training-workerpool1-")
    assert host_name("123", WORKER).endswith("-1")


def test_a_job_knows_its_number_project_and_region() -> None:
    found = variables(make_custom_job())

    assert found["CLOUD_ML_PROJECT_ID"] == str(project_number("demo"))
    assert (found["CLOUD_ML_JOB_ID"], found["CLOUD_ML_REGION"]) == ("123", "us-central1")
    assert not any(name.startswith("AIP_") for name in found)


def test_folders_for_outputs_lie_below_the_base() -> None:
    found = variables(make_custom_job(baseOutputDirectory={"outputUriPrefix": "gs://bucket/base/"}))

    assert {name: value for name, value in found.items() if name.startswith("AIP_")} == {
        "AIP_MODEL_DIR": "gs://bucket/base/model/",
        "AIP_CHECKPOINT_DIR": "gs://bucket/base/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": "gs://bucket/base/logs/",
    }


def test_the_variables_of_a_pool_are_its_own_and_see_those_of_the_service() -> None:
    env = [{"name": "ID", "value": "job-$(CLOUD_ML_JOB_ID)"}, {"name": "COPY", "value": "$(ID)"}]
    job = make_custom_job(make_pool(env=env), make_pool(2))

    assert variables(job)["COPY"] == "job-123"
    assert "ID" not in variables(job, WORKER)


def test_a_trial_knows_which_it_is() -> None:
    found = variables(make_custom_job(), trial_id="3")

    assert found["CLOUD_ML_TRIAL_ID"] == "3"
    assert json.loads(found["CLUSTER_SPEC"])["task"]["trial"] == "3"


def test_no_variable_is_set_that_is_not_listed() -> None:
    job = make_custom_job(make_pool(), make_pool(2), baseOutputDirectory={"outputUriPrefix": "gs://bucket/b"})

    assert variables(job, trial_id="1").keys() == VARIABLES
