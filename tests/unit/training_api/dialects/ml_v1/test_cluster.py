"""Host names, CLUSTER_SPEC and TF_CONFIG."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.dialects.ml_v1.cluster import build_cluster, cluster_environment
from training_api.job.cluster import CLUSTER_PORT, ReplicaId, ReplicaRole, replica_host

JOB_ID = "digits_1"
DIGEST = "dddfa8ed8c"
MASTER = ReplicaId(role=ReplicaRole.MASTER)
WORKERS = [ReplicaId(role=ReplicaRole.WORKER, index=index) for index in range(2)]
PARAMETER_SERVER = ReplicaId(role=ReplicaRole.PARAMETER_SERVER)
EVALUATOR = ReplicaId(role=ReplicaRole.EVALUATOR)
DISTRIBUTED = [MASTER, *WORKERS, PARAMETER_SERVER, EVALUATOR]
_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

counts = st.integers(0, 4)
job_ids = st.text(min_size=1, max_size=200)


def make_environment(**changes: Any) -> dict[str, Any]:
    """Return both variables of the master of a one-replica job, read from their JSON."""
    defaults: dict[str, Any] = {"replica": MASTER, "replicas": [MASTER], "job_parameters": {}}
    return {
        name: json.loads(text)
        for name, text in cluster_environment(job_id=JOB_ID, **(defaults | changes)).items()
    }


def make_replicas(workers: int, servers: int, evaluators: int) -> list[ReplicaId]:
    sizes = {
        ReplicaRole.MASTER: 1,
        ReplicaRole.WORKER: workers,
        ReplicaRole.PARAMETER_SERVER: servers,
        ReplicaRole.EVALUATOR: evaluators,
    }
    return [ReplicaId(role=role, index=index) for role, size in sizes.items() for index in range(size)]


def test_a_single_master_gets_both_variables() -> None:
    environment = make_environment(job_parameters={"region": "us-central1"})

    expected = {
        "cluster": {"master": [f"cmle-training-master-{DIGEST}-0:2222"]},
        "environment": "cloud",
        "job": {"region": "us-central1"},
        "task": {"index": 0, "trial": "", "type": "master"},
    }
    assert environment == {"CLUSTER_SPEC": expected, "TF_CONFIG": expected}


@pytest.mark.parametrize(
    ("replica", "task"),
    [
        (MASTER, {"index": 0, "trial": "", "type": "master"}),
        (WORKERS[1], {"index": 1, "trial": "", "type": "worker"}),
        (PARAMETER_SERVER, {"index": 0, "trial": "", "type": "ps"}),
        (EVALUATOR, {"index": 0, "trial": "", "type": "evaluator"}),
    ],
)
def test_every_replica_of_a_distributed_job_finds_the_others_and_itself(
    replica: ReplicaId, task: dict[str, Any]
) -> None:
    environment = make_environment(replica=replica, replicas=DISTRIBUTED)

    assert environment["CLUSTER_SPEC"] == environment["TF_CONFIG"]
    assert environment["TF_CONFIG"]["task"] == task
    assert environment["TF_CONFIG"]["cluster"] == {
        "master": [f"cmle-training-master-{DIGEST}-0:2222"],
        "worker": [f"cmle-training-worker-{DIGEST}-0:2222", f"cmle-training-worker-{DIGEST}-1:2222"],
        "ps": [f"cmle-training-ps-{DIGEST}-0:2222"],
    }


@pytest.mark.parametrize(
    ("replica", "spec_task", "config_task"),
    [
        (MASTER, ("master", 0), ("chief", 0)),
        (WORKERS[0], ("worker", 0), ("worker", 0)),
        (WORKERS[1], ("worker", 1), ("worker", 1)),
        (PARAMETER_SERVER, ("ps", 0), ("ps", 0)),
        (EVALUATOR, ("evaluator", 0), ("evaluator", 0)),
    ],
)
def test_the_whole_of_both_variables_in_every_replica_of_a_trial_with_a_chief(
    replica: ReplicaId, spec_task: tuple[str, int], config_task: tuple[str, int]
) -> None:
    parameters = {"region": "us-central1", "workerCount": "2", "useChiefInTfConfig": True}

    environment = make_environment(
        replica=replica, replicas=DISTRIBUTED, job_parameters=parameters, use_chief=True, trial_id="3"
    )

    def expected(master: str, task: tuple[str, int]) -> dict[str, Any]:
        return {
            "cluster": {
                master: [f"cmle-training-master-{DIGEST}-0:2222"],
                "worker": [f"cmle-training-worker-{DIGEST}-0:2222", f"cmle-training-worker-{DIGEST}-1:2222"],
                "ps": [f"cmle-training-ps-{DIGEST}-0:2222"],
            },
            "environment": "cloud",
            "job": parameters,
            "task": {"type": task[0], "index": task[1], "trial": "3"},
        }

    assert environment == {
        "CLUSTER_SPEC": expected("master", spec_task),
        "TF_CONFIG": expected("chief", config_task),
    }


def test_only_tf_config_says_chief() -> None:
    environment = make_environment(replicas=DISTRIBUTED, use_chief=True)

    # The host keeps its name, as it did in the real service's logs.
    assert environment["TF_CONFIG"]["cluster"]["chief"] == [f"cmle-training-master-{DIGEST}-0:2222"]
    assert environment["TF_CONFIG"]["task"]["type"] == "chief"
    assert "master" not in environment["TF_CONFIG"]["cluster"]
    assert environment["CLUSTER_SPEC"]["task"]["type"] == "master"
    assert set(environment["CLUSTER_SPEC"]["cluster"]) == {"master", "worker", "ps"}


def test_a_worker_stays_a_worker_where_the_master_is_chief() -> None:
    environment = make_environment(replica=WORKERS[0], replicas=DISTRIBUTED, use_chief=True)

    assert environment["TF_CONFIG"]["task"]["type"] == "worker"


def test_a_trial_finds_its_number() -> None:
    environment = make_environment(trial_id="7")

    assert environment["TF_CONFIG"]["task"]["trial"] == "7"
    assert environment["CLUSTER_SPEC"]["task"]["trial"] == "7"


def test_the_same_job_gives_the_same_bytes() -> None:
    def build(replicas: list[ReplicaId], parameters: dict[str, str]) -> dict[str, str]:
        return cluster_environment(
            job_id=JOB_ID, replica=MASTER, replicas=replicas, job_parameters=parameters
        )

    assert build(DISTRIBUTED, {"a": "1", "b": "2"}) == build(DISTRIBUTED[::-1], {"b": "2", "a": "1"})


@pytest.mark.parametrize(
    ("replica", "name"),
    [(MASTER, "master-replica-0"), (WORKERS[1], "worker-replica-1"), (PARAMETER_SERVER, "ps-replica-0")],
)
def test_a_replica_logs_under_its_task_name(replica: ReplicaId, name: str) -> None:
    assert replica.task_name == name


@settings(deadline=None)
@given(job_id=job_ids, role=st.sampled_from(ReplicaRole), index=st.integers(0, 10**6))
def test_a_host_name_is_a_dns_label_for_any_job_id(job_id: str, role: ReplicaRole, index: int) -> None:
    assert _DNS_LABEL.fullmatch(replica_host(job_id, ReplicaId(role=role, index=index)))


@settings(deadline=None)
@given(job_ids=st.lists(job_ids, min_size=2, max_size=2, unique=True))
def test_different_jobs_have_different_hosts(job_ids: list[str]) -> None:
    assert replica_host(job_ids[0], MASTER) != replica_host(job_ids[1], MASTER)


@settings(max_examples=50, deadline=None)
@given(workers=counts, servers=counts, evaluators=counts, use_chief=st.booleans())
def test_all_replicas_agree_on_the_cluster_and_stand_at_their_own_index(
    workers: int, servers: int, evaluators: int, use_chief: bool
) -> None:
    replicas = make_replicas(workers, servers, evaluators)

    for name in ("CLUSTER_SPEC", "TF_CONFIG"):
        specs = [
            make_environment(replica=replica, replicas=replicas, use_chief=use_chief)[name]
            for replica in replicas
        ]

        shared = [{key: value for key, value in spec.items() if key != "task"} for spec in specs]
        assert all(each == shared[0] for each in shared)
        assert len({(spec["task"]["type"], spec["task"]["index"]) for spec in specs}) == len(replicas)
        for replica, spec in zip(replicas, specs, strict=True):
            task, address = spec["task"], f"{replica_host(JOB_ID, replica)}:{CLUSTER_PORT}"
            if replica.role is ReplicaRole.EVALUATOR:
                assert task["type"] not in spec["cluster"]
            else:
                assert spec["cluster"][task["type"]][task["index"]] == address


@settings(deadline=None)
@given(workers=counts, servers=counts, evaluators=counts)
def test_the_cluster_names_every_replica_but_the_evaluators_once(
    workers: int, servers: int, evaluators: int
) -> None:
    cluster = build_cluster(JOB_ID, make_replicas(workers, servers, evaluators), use_chief=False)

    addresses = [address for group in cluster.values() for address in group]
    assert len(addresses) == len(set(addresses)) == 1 + workers + servers
    assert all(cluster.values())
