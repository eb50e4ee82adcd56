"""A cluster of a preflight on a played engine: what is seen, and nothing left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from container_engines.docker.driver import ContainerLaunch
from container_training.work.images.engine import Cancellation
from container_training.work.preflight import cluster_run
from container_training.work.preflight.cluster_run import run_cluster
from container_training.work.preflight.report import ReplicaOutcome
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from training_api.errors import EngineBusy, PreflightFailed, RegistryUnavailable
from training_api.job.cluster import ReplicaId, ReplicaRole

MASTER, WORKER = ReplicaId(role=ReplicaRole.MASTER), ReplicaId(role=ReplicaRole.WORKER)
ENDS, STAYS = "registry.test/p/ends:1", "registry.test/p/stays:1"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(cluster_run, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(cluster_run, "MAX_SECOND_RUN_SECONDS", 0.0)


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        engine.images[ENDS] = Program(lines=((1, "met"),), exit_code=0)
        engine.images[STAYS] = Program(lines=((2, "10%\r20%"),))
        yield engine
        assert engine.containers == {}
        assert engine.networks == {}


def run(engine: FakeDocker, master: str, worker: str, **arguments: Any) -> dict[ReplicaId, ReplicaOutcome]:
    client = engine.client()
    try:
        outcomes = run_cluster(
            client,
            {
                MASTER: ContainerLaunch(image=master, host_name="master-0", environment={"TF_CONFIG": "{}"}),
                WORKER: ContainerLaunch(image=worker, host_name="worker-0", memory_bytes=2**26),
            },
            **{
                "owner": "me",
                "watch_seconds": 60,
                "grace_seconds": 0,
                "find_login": lambda _: {},
                "on_line": lambda _: None,
                **arguments,
            },
        )
    finally:
        client.close()
    return {outcome.replica: outcome for outcome in outcomes}


def test_a_master_that_ends_well_ends_the_watch_and_the_others_are_stopped(engine: FakeDocker) -> None:
    lines: list[str] = []

    outcomes = run(engine, ENDS, STAYS, on_line=lines.append)

    master, worker = outcomes[MASTER], outcomes[WORKER]
    assert (master.exit_code, master.hostname, master.environment) == (0, "master-0", {"TF_CONFIG": "{}"})
    assert (worker.exit_code, worker.memory_bytes, worker.tail) == (None, 2**26, ("20%",))
    assert worker.stop is not None
    assert not worker.stop.killed
    assert lines == ["master-replica-0 | met", "worker-replica-0 | 20%"]
    assert all(made["HostConfig"]["NetworkMode"] == "preflight-me" for made in engine.made)
    assert all(made["HostConfig"]["LogConfig"]["Config"]["max-size"] == "8m" for made in engine.made)


def test_a_replica_that_must_be_killed_is_told(engine: FakeDocker) -> None:
    engine.images[STAYS] = Program(ignores_sigterm=True)

    stop = run(engine, ENDS, STAYS)[WORKER].stop

    assert stop is not None
    assert stop.killed


def test_a_replica_that_cannot_be_started_is_one_rows_error(engine: FakeDocker) -> None:
    engine.images["broken"] = Program()
    engine.refusals["POST containers/6d6164652d75702d31"] = (400, 'exec: "x": executable file not found')

    outcomes = run(engine, STAYS, "broken", watch_seconds=0)

    (failed,) = [outcome for outcome in outcomes.values() if outcome.start_error]
    assert failed.start_error.startswith("it could not be started: start container ")
    assert "executable file not found" in failed.start_error


def test_an_image_that_nobody_has_is_an_error_of_its_replicas(engine: FakeDocker) -> None:
    outcomes = run(engine, STAYS, "registry.test/p/absent:1", watch_seconds=0)

    assert outcomes[MASTER].start_error == ""
    expected = "image registry.test/p/absent:1 is not on the engine and cannot be pulled: "
    assert outcomes[WORKER].start_error.startswith(expected)


def test_an_image_that_the_engine_lacks_is_pulled_with_its_registrys_login(engine: FakeDocker) -> None:
    engine.registry["registry.test/p/new:1"] = Program()
    hosts: list[str] = []

    def find_login(host: str) -> dict[str, str]:
        hosts.append(host)
        return {"username": "u", "password": "p"}

    run(engine, ENDS, "registry.test/p/new:1", find_login=find_login)

    assert hosts == ["registry.test"]
    assert len(engine.logins) == 1


@pytest.mark.parametrize(
    ("refusal", "pull_error", "expected"),
    [
        ({}, "toomanyrequests: slower", RegistryUnavailable),
        ({"POST networks/create": (404, "non-overlapping IPv4 address pool")}, "", EngineBusy),
        ({"POST containers/create": (500, "of this nothing is known")}, "", EngineBusy),
    ],
)
def test_what_may_pass_is_no_row_but_an_error_that_airflow_retries(
    engine: FakeDocker, refusal: dict[str, tuple[int, str]], pull_error: str, expected: type[Exception]
) -> None:
    engine.refusals |= refusal
    engine.pull_error = pull_error

    with pytest.raises(expected):
        run(engine, ENDS, "registry.test/p/absent:1" if pull_error else STAYS)


def test_a_cancel_removes_everything_and_says_so(engine: FakeDocker) -> None:
    cancellation = Cancellation()

    with pytest.raises(PreflightFailed, match="the preflight was cancelled"):
        run(engine, ENDS, STAYS, cancellation=cancellation, on_line=lambda _: cancellation.cancel())
