"""What the service's engine makes of the answers of a played Docker Engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from container_engines.base import ReplicaLaunch
from container_engines.disk_use import DiskUse
from container_engines.docker import engine as module
from container_engines.docker.engine import DockerEngine
from container_engines.labels import JOB_UID
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from tests.support.speed import scaled
from training_api.errors import DiskFull, EngineBusy, EngineError, EngineUnavailable
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt


@pytest.fixture
def docker() -> Iterator[FakeDocker]:
    with run_fake_docker() as docker:
        yield docker


@pytest.fixture
def engine(docker: FakeDocker) -> Iterator[DockerEngine]:
    with closing(DockerEngine("service", docker.url)) as engine:
        yield engine


def test_a_container_whose_use_cannot_be_had_is_not_waited_for_long(
    docker: FakeDocker, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STATS_SECONDS", 0.1)
    docker.hanging_ends.add("/stats")
    began = time.monotonic()

    with pytest.raises(EngineUnavailable):
        engine.read_usage("0" * 64)

    assert time.monotonic() - began < scaled(30)


def test_the_use_of_a_container_that_is_gone_is_unknown(engine: DockerEngine) -> None:
    assert engine.read_usage("0" * 64) is None


def launch(uid: str) -> ReplicaLaunch:
    return ReplicaLaunch(
        job_uid=uid,
        job_id="job",
        project="project",
        replica=ReplicaId(role=ReplicaRole.MASTER),
        attempt=Attempt(),
        image_id="image",
        host_name="master",
        command=(),
        args=(),
        environment={},
        resources=Resources(cpus=1, memory_bytes=2**26),
        pids_limit=100,
        disk_bytes=5_000_000,
    )


def test_a_root_has_a_quota_where_the_storage_driver_can(docker: FakeDocker, engine: DockerEngine) -> None:
    docker.images["image"] = Program()

    engine.start_replica(launch("a"))

    assert docker.made[-1]["HostConfig"]["StorageOpt"] == {"size": "5000000"}


def test_where_the_storage_driver_has_no_quotas_containers_have_none(
    docker: FakeDocker, engine: DockerEngine
) -> None:
    docker.images["image"] = Program()
    text = "--storage-opt is supported only for overlay over xfs with 'pquota' mount option"
    docker.refusals["POST containers/create"] = (500, text)
    with pytest.raises(EngineBusy, match="pquota"):
        engine.start_replica(launch("a"))
    del docker.refusals["POST containers/create"]

    engine.start_replica(launch("b"))

    assert not docker.made[-1]["HostConfig"].get("StorageOpt")


def test_another_refusal_leaves_the_quota(docker: FakeDocker, engine: DockerEngine) -> None:
    docker.images["image"] = Program()
    docker.refusals["POST containers/create"] = (500, "no space left on device")
    with pytest.raises(DiskFull):
        engine.start_replica(launch("a"))
    del docker.refusals["POST containers/create"]

    engine.start_replica(launch("b"))

    assert docker.made[-1]["HostConfig"]["StorageOpt"] == {"size": "5000000"}


def test_a_container_whose_start_had_no_answer_is_made_again(
    docker: FakeDocker, engine: DockerEngine
) -> None:
    """The engine may have begun the start, and a second one would double the log."""
    docker.images["image"] = Program()
    docker.refusals["POST containers/.*/start"] = (500, "the engine was killed")
    with pytest.raises(EngineError):
        engine.start_replica(launch("a"))
    docker.refusals.clear()

    engine.start_replica(launch("a"))

    assert len(docker.made) == 2
    assert [each.state for each in docker.containers.values()] == ["running"]


def test_what_a_container_that_is_gone_has_written_is_unknown(engine: DockerEngine) -> None:
    assert engine.read_disk("0" * 64, DiskUse(bytes=0)) is None


def test_a_container_that_is_listed_a_moment_after_its_program_has_asked_is_found(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"Labels": {JOB_UID: "uid"}, "NetworkSettings": {"Networks": {"n": {"IPAddress": "172.18.0.2"}}}}
    looks = iter([[], [], [row]])
    monkeypatch.setattr(module.DockerDriver, "containers", lambda *_, **__: next(looks))

    assert engine.job_at("172.18.0.2") == "uid"


def test_an_address_that_nobody_has_is_looked_for_a_bounded_number_of_times(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)

    assert engine.job_at("172.18.0.2") is None
    assert engine.job_at("") is None
    assert sum(pauses) == pytest.approx(1.5)
