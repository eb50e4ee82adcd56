"""Which network the replicas of jobs join on a played Docker Engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from container_engines.base import ReplicaLaunch
from container_engines.confinement import IS_OPEN_INSIDE
from container_engines.docker import job_networks as module
from container_engines.docker.driver import DockerDriver
from container_engines.docker.job_networks import JobNetworks
from container_engines.docker.kinds import PODMAN
from container_engines.egress import mark_of
from container_engines.labels import JOB_UID, SERVICE
from tests.contract.engine_benches import make_launch
from tests.support.fakes.docker_api import FakeDocker, run_fake_docker
from training_api.errors import EngineBusy

SHARED = f"ct-shared-{mark_of('service')}"
REFUSED = (500, "cannot restrict inter-container communication: modprobe br_netfilter")


@pytest.fixture
def docker() -> Iterator[FakeDocker]:
    with run_fake_docker() as docker:
        yield docker


@pytest.fixture
def driver(docker: FakeDocker) -> Iterator[DockerDriver]:
    with closing(docker.client()) as client:
        yield DockerDriver(client)


@pytest.fixture
def networks() -> JobNetworks:
    return JobNetworks("service", None)


def alone(uid: str) -> ReplicaLaunch:
    return replace(make_launch("image"), job_uid=uid, is_alone=True)


def test_replicas_that_are_alone_share_a_network_that_is_closed_inside(
    docker: FakeDocker, driver: DockerDriver, networks: JobNetworks
) -> None:
    joined = [networks.ensure(driver, alone(uid)) for uid in ("1", "2")]

    assert joined == [SHARED, SHARED]
    (made,) = docker.networks.values()
    assert made["Options"][IS_OPEN_INSIDE] == "false"
    # It is no job's, and goes with none.
    assert made["Labels"] == {SERVICE: "service"}


def test_replicas_with_others_have_a_network_of_their_job(
    docker: FakeDocker, driver: DockerDriver, networks: JobNetworks
) -> None:
    launch = replace(alone("1"), is_alone=False)

    assert [networks.ensure(driver, launch) for _ in range(2)] == ["ct-1", "ct-1"]
    (made,) = docker.networks.values()
    assert not made.get("Options")
    assert made["Labels"][JOB_UID] == "1"


def test_a_restarted_replica_stays_in_the_network_that_an_older_service_made_for_it(
    driver: DockerDriver, networks: JobNetworks
) -> None:
    networks.ensure(driver, replace(alone("1"), is_alone=False))

    assert networks.ensure(driver, alone("1")) == "ct-1"


def test_podman_closes_no_network_so_each_job_has_its_own(
    driver: DockerDriver, networks: JobNetworks
) -> None:
    podman = DockerDriver(driver.client, PODMAN)

    assert networks.ensure(podman, alone("1")) == "ct-1"
    assert not networks.can_share(podman)
    assert networks.can_share(driver)


def test_where_the_machine_cannot_close_a_network_each_job_has_its_own(
    docker: FakeDocker, driver: DockerDriver, networks: JobNetworks
) -> None:
    docker.refusals["POST networks/create"] = REFUSED
    with pytest.raises(EngineBusy, match="br_netfilter"):
        networks.ensure(driver, alone("1"))
    del docker.refusals["POST networks/create"]

    assert networks.ensure(driver, alone("1")) == "ct-1"
    assert not networks.can_share(driver)

    networks.confine(driver)  # tries again
    assert networks.ensure(driver, alone("2")) == SHARED


def test_a_job_for_which_the_shared_network_has_no_address_has_its_own(
    driver: DockerDriver, networks: JobNetworks, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"NetworkSettings": {"Networks": {SHARED: {}}}}] * 236
    networks.ensure(driver, alone("1"))

    networks.count(rows[1:])  # 256 addresses: 3 are no container's, and 16 are left free
    assert networks.ensure(driver, alone("2")) == SHARED
    networks.count([*rows, {"NetworkSettings": {"Networks": {"ct-9": {}}}}])
    assert networks.ensure(driver, alone("2")) == SHARED
    networks.count([*rows, rows[0]])
    assert networks.ensure(driver, alone("3")) == "ct-3"

    monkeypatch.setattr(module, "_MOST_PORTS", 100)
    again = JobNetworks("service", None)
    again.count(rows[:81])
    assert again.ensure(driver, alone("4")) == "ct-4"


def test_the_engine_lists_networks_of_jobs_only_while_there_may_be_some(
    docker: FakeDocker, driver: DockerDriver, networks: JobNetworks
) -> None:
    def listed() -> tuple[list[str], bool]:
        before = docker.requests.count("GET networks")
        names = [each["Name"] for each in networks.of_jobs(driver)]
        return names, docker.requests.count("GET networks") > before

    assert listed() == ([], True)  # an earlier service may have left one
    networks.ensure(driver, alone("1"))
    assert listed() == ([], False)

    networks.ensure(driver, replace(alone("2"), is_alone=False))
    assert listed() == listed() == (["ct-2"], True)
    driver.remove_all(f"{SERVICE}=service", f"{JOB_UID}=2")
    assert [listed(), listed()] == [([], True), ([], False)]

    docker.refusals["POST networks/create"] = (500, "made, but the answer was lost")
    with pytest.raises(EngineBusy):
        networks.ensure(driver, replace(alone("3"), is_alone=False))
    assert listed() == ([], True)

    networks.confine(driver)
    docker.refusals["GET networks"] = (500, "busy")
    for _ in range(2):
        with pytest.raises(EngineBusy):
            networks.of_jobs(driver)
