"""What the distributed trainers share: a replica's identity, its peers, and its results."""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.ports import reserve_port
from tests.unit.trainers.trainer_modules import trainer_modules
from training_api.dialects.ml_v1.cluster import cluster_environment
from training_api.job.cluster import ReplicaId, ReplicaRole, replica_host

MASTER = ReplicaId(role=ReplicaRole.MASTER)
WORKERS = [ReplicaId(role=ReplicaRole.WORKER, index=index) for index in range(2)]
SERVER = ReplicaId(role=ReplicaRole.PARAMETER_SERVER)
EVALUATOR = ReplicaId(role=ReplicaRole.EVALUATOR)


@pytest.fixture(scope="module")
def trainer() -> Iterator[SimpleNamespace]:
    with trainer_modules(
        ["digits", "shared", "tensorflow_ps"],
        ["arguments", "cluster", "order", "replica", "results", "storage"],
    ) as modules:
        yield modules


def environment_of(replica: ReplicaId, *replicas: ReplicaId, use_chief: bool = True) -> dict[str, str]:
    return cluster_environment(
        job_id="j", replica=replica, replicas=replicas or [replica], job_parameters={}, use_chief=use_chief
    )


@pytest.mark.parametrize(
    ("replica", "rank"), [(MASTER, 0), (WORKERS[0], 1), (WORKERS[1], 2)], ids=lambda value: str(value)
)
def test_ranks_begin_at_the_master_and_go_on_with_the_workers(
    trainer: SimpleNamespace, replica: ReplicaId, rank: int
) -> None:
    found = trainer.replica.read_replica(environment_of(replica, MASTER, *WORKERS, SERVER, EVALUATOR))

    assert (found.rank, found.world_size, found.is_master) == (rank, 3, rank == 0)
    assert (found.master_host, found.port) == (replica_host("j", MASTER), 2222)


@pytest.mark.parametrize(("pool", "index", "rank"), [(0, 0, 0), (1, 0, 1), (1, 1, 2)])
def test_ranks_in_the_pools_of_vertex_ai_are_the_same(
    trainer: SimpleNamespace, pool: int, index: int, rank: int
) -> None:
    cluster = {"workerpool0": ["p0:2222"], "workerpool1": ["p1a:2222", "p1b:2222"], "workerpool2": ["p2:1"]}
    spec = {"cluster": cluster, "environment": "cloud", "task": {"type": f"workerpool{pool}", "index": index}}

    found = trainer.replica.read_replica({"CLUSTER_SPEC": json.dumps(spec)})

    assert (found.rank, found.world_size, found.is_master) == (rank, 3, rank == 0)
    assert (found.master_host, found.port) == ("p0", 2222)


@pytest.mark.parametrize("environment", [{}, {"CLUSTER_SPEC": ""}])
def test_without_a_cluster_a_replica_is_alone(trainer: SimpleNamespace, environment: dict[str, str]) -> None:
    found = trainer.replica.read_replica(environment)

    assert (found.rank, found.world_size, found.master_host, found.port) == (0, 1, "localhost", 2222)


@pytest.mark.parametrize(
    "spec",
    [
        "{",
        "[]",
        "1",
        "{}",
        '{"cluster": {}, "task": {}}',
        '{"cluster": {"master": ["m:x"]}, "task": {"type": "master", "index": 0}}',
        json.dumps({"cluster": {"master": ["m:1"]}, "task": {"type": "ps", "index": 0}}),
        json.dumps({"cluster": {"master": []}, "task": {"type": "master", "index": 0}}),
    ],
)
def test_a_cluster_spec_that_cannot_be_read_is_named(trainer: SimpleNamespace, spec: str) -> None:
    with pytest.raises(trainer.replica.ClusterError, match="CLUSTER_SPEC must name a master"):
        trainer.replica.read_replica({"CLUSTER_SPEC": spec})


def test_a_peer_is_waited_for_until_it_listens(trainer: SimpleNamespace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        trainer.replica.wait_for_port(f"127.0.0.1:{listener.getsockname()[1]}", timeout_seconds=0)

    assert trainer.replica.wait_for_name("localhost", timeout_seconds=0) == "127.0.0.1"


def test_a_peer_that_does_not_come_is_named(
    trainer: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: str) -> str:
        raise socket.gaierror(f"no address for {host}")

    monkeypatch.setattr(trainer.replica.socket, "gethostbyname", resolve)
    address = f"127.0.0.1:{reserve_port()}"

    with pytest.raises(trainer.replica.ClusterError, match=f"{address} is not there after 0.01 s"):
        trainer.replica.wait_for_port(address, timeout_seconds=0.01)
    with pytest.raises(
        trainer.replica.ClusterError, match=r"worker-9 is not there after 0\.01 s: no address"
    ):
        trainer.replica.wait_for_name("worker-9", timeout_seconds=0.01)


@pytest.mark.parametrize(
    ("replica", "task"), [(MASTER, ("chief", 0)), (WORKERS[1], ("worker", 1)), (SERVER, ("ps", 0))]
)
def test_tensorflows_roles_are_those_of_tf_config(
    trainer: SimpleNamespace, replica: ReplicaId, task: tuple[str, int]
) -> None:
    environment = environment_of(replica, MASTER, *WORKERS, SERVER)

    assert trainer.cluster.task_of(environment) == task
    cluster = trainer.cluster.cluster_of(environment)
    assert {role: len(hosts) for role, hosts in cluster.items()} == {"chief": 1, "worker": 2, "ps": 1}


@pytest.mark.parametrize("environment", [{}, environment_of(MASTER), environment_of(MASTER, use_chief=False)])
def test_a_chief_that_is_alone_has_no_cluster(trainer: SimpleNamespace, environment: dict[str, str]) -> None:
    assert trainer.cluster.cluster_of(environment) is None


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (environment_of(MASTER, MASTER, *WORKERS), "no ps"),
        (
            environment_of(MASTER, MASTER, WORKERS[0], SERVER, use_chief=False),
            "no chief; the job needs chief, worker, ps, .*useChiefInTfConfig",
        ),
        ({"TF_CONFIG": "{"}, "TF_CONFIG must be a JSON object"),
        ({"TF_CONFIG": '["cluster"]'}, "TF_CONFIG must be a JSON object"),
        ({"TF_CONFIG": '{"cluster": 1}'}, "the object 'cluster'"),
    ],
)
def test_a_cluster_that_tensorflow_cannot_use_is_explained(
    trainer: SimpleNamespace, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(trainer.replica.ClusterError, match=message):
        trainer.cluster.cluster_of(environment)


def test_a_strategy_without_servers_needs_none(trainer: SimpleNamespace) -> None:
    cluster = trainer.cluster.cluster_of(environment_of(MASTER, MASTER, *WORKERS), ("chief", "worker"))

    assert {role: len(hosts) for role, hosts in cluster.items()} == {"chief": 1, "worker": 2}


def test_a_pass_takes_each_row_at_most_once_in_whole_batches(trainer: SimpleNamespace) -> None:
    batches = [list(batch) for batch in trainer.order.batches(10, size=4, seed=3)]

    assert [len(batch) for batch in batches] == [4, 4]
    assert len({row for batch in batches for row in batch}) == 8
    assert batches == [list(batch) for batch in trainer.order.batches(10, size=4, seed=3)]
    (small,) = trainer.order.batches(3, size=4, seed=3)
    assert sorted(small) == [0, 1, 2]


@pytest.mark.parametrize(
    ("environment", "words", "folder"),
    [
        ({}, [], "output"),
        ({"AIP_MODEL_DIR": "gs://b/model/"}, [], "gs://b/model/"),
        ({"AIP_MODEL_DIR": "gs://b/model/"}, ["--job-dir", "gs://b/job"], "gs://b/job"),
    ],
)
def test_the_job_directory_is_that_of_either_service(
    trainer: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    words: list[str],
    folder: str,
) -> None:
    monkeypatch.delenv("AIP_MODEL_DIR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()

    trainer.results.add_job_dir(parser)

    assert parser.parse_args(words).job_dir == folder


def test_results_are_the_model_and_last_the_metrics(
    trainer: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saved" / "variables").mkdir(parents=True)
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "saved" / "variables" / "index").write_bytes(b"values")

    model = trainer.results.files_below(tmp_path / "saved", "model")
    trainer.results.write_results(str(tmp_path / "job"), model, {"accuracy": 0.5})

    assert json.loads((tmp_path / "job" / "metrics.json").read_text()) == {"accuracy": 0.5}
    assert (tmp_path / "job" / "model" / "variables" / "index").read_bytes() == b"values"
    written = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("wrote")]
    assert [name.removeprefix(f"{tmp_path}/job/") for name in written] == [
        "model/saved_model.pb",
        "model/variables/index",
        "metrics.json",
    ]


@pytest.mark.parametrize("kind", ["count", "rate", "seed", "fraction"])
def test_no_argument_takes_words(trainer: SimpleNamespace, kind: str) -> None:
    check: Any = getattr(trainer.arguments, kind)

    with pytest.raises(Exception, match="must be a number, got 'many'"):
        check("many")
