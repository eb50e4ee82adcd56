"""A refusal of a Docker Engine is the same error to all that ask one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import docker
import pytest

from container_engines.base import ReplicaLaunch
from container_engines.docker.driver import ContainerLaunch
from container_engines.docker.engine import DockerEngine
from container_engines.swarm.engine import SwarmEngine
from container_training.work.images.puller import pull_image
from container_training.work.images.pusher import push_image
from container_training.work.preflight.cluster_run import run_cluster
from container_training.work.preflight.container_run import RunLimits, run_container
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from training_api.errors import (
    CommandNotFound,
    DiskFull,
    EngineBusy,
    EngineError,
    EngineUnavailable,
    ImageAccessDenied,
    ImageNotFound,
    ImageTestFailed,
    PushFailed,
    RegistryUnavailable,
    TrainingError,
)
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import parse_image_ref
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt
from training_api.retrying import ENGINE_MAY_DO_LATER

#: No registry answers there; the engine is asked all the same.
NAME = "127.0.0.1:1/p/trainer:1"
MASTER = ReplicaId(role=ReplicaRole.MASTER)


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        engine.images[NAME] = Program(exit_code=0)
        yield engine


@pytest.fixture
def client(engine: FakeDocker) -> Iterator[docker.APIClient]:
    with closing(engine.client()) as client:
        yield client


def kind_of_error(do: Callable[[], object]) -> type[TrainingError] | None:
    """Return the class of the error that ``do`` raises; ``None``: it raises none."""
    try:
        do()
    except TrainingError as error:
        return type(error)
    return None


#: Status (``None``: within the stream of the pull), what the engine says, what it is.
PULLS = [
    (401, "unauthorized: authentication required", ImageAccessDenied),
    (403, "denied", ImageAccessDenied),
    (404, "manifest unknown", ImageNotFound),
    (400, "invalid reference format", EngineError),
    (429, "toomanyrequests", RegistryUnavailable),
    (500, "toomanyrequests: You have reached your pull rate limit", RegistryUnavailable),
    (500, "received unexpected HTTP status: 500 Internal Server Error", RegistryUnavailable),
    (500, "write: broken pipe", RegistryUnavailable),
    (500, "lookup registry: temporary failure in name resolution", RegistryUnavailable),
    (500, 'Get "https://registry/v2/": context deadline exceeded', RegistryUnavailable),
    (500, "write /var/lib/docker/tmp/1: disk quota exceeded", DiskFull),
    (500, "write /var/lib/docker/tmp/1: no space left on device", DiskFull),
    (503, "daemon is shutting down", EngineUnavailable),
    (500, "of this nothing is known", EngineBusy),
    (None, "manifest unknown", ImageNotFound),
    (None, "toomanyrequests: rate exceeded", RegistryUnavailable),
    (None, "unexpected HTTP status 500", RegistryUnavailable),
    (None, "disk quota exceeded", DiskFull),
    (None, "of this nothing is known", EngineError),
]


@pytest.mark.parametrize(("status", "text", "expected"), PULLS)
def test_a_refused_pull_is_the_same_error_to_all(
    engine: FakeDocker,
    client: docker.APIClient,
    status: int | None,
    text: str,
    expected: type[TrainingError],
) -> None:
    ref = parse_image_ref(NAME)
    if status is None:
        engine.pull_error = text
    else:
        engine.refusals = dict.fromkeys(("POST images/", "GET distribution/"), (status, text))

    with closing(DockerEngine("test", engine.url)) as service:
        assert kind_of_error(lambda: service.pull_image(ref)) is expected
    assert kind_of_error(lambda: pull_image(client, NAME, lambda _: {})) is expected
    if status is not None:  # a swarm looks the image up, and the answer is no stream
        with closing(SwarmEngine("test", engine.url)) as swarm:
            assert kind_of_error(lambda: swarm.pull_image(ref)) is expected
        pushed = expected if issubclass(expected, (*ENGINE_MAY_DO_LATER, DiskFull)) else PushFailed
        push = kind_of_error(
            lambda: push_image(client, ref, on_line=lambda _: None, find_login=lambda _: {}, attempts=1)
        )
        assert push is pushed


STARTS = [
    (400, "invalid mount config", EngineError),
    (400, 'exec: "trainer": executable file not found in $PATH', CommandNotFound),
    (500, 'could not select device driver "nvidia"', EngineError),
    (500, "of this nothing is known", EngineBusy),
    (409, 'Conflict. The container name "/ct-1" is already in use', EngineBusy),
    (404, "network ct-1 not found", EngineBusy),
    (500, "could not find an available, non-overlapping IPv4 address pool", EngineBusy),
    (503, "daemon is shutting down", EngineUnavailable),
    (500, "mkdir /var/lib/docker/overlay2/1: disk quota exceeded", DiskFull),
]


@pytest.mark.parametrize("step", ["POST containers/create", "POST containers/[^/]+/start"])
@pytest.mark.parametrize(("status", "text", "expected"), STARTS)
def test_a_refused_start_is_the_same_error_to_all_or_the_fault_of_what_was_to_start(
    engine: FakeDocker,
    client: docker.APIClient,
    step: str,
    status: int,
    text: str,
    expected: type[TrainingError],
) -> None:
    engine.refusals[step] = (status, text)

    with closing(DockerEngine("test", engine.url)) as service:
        assert kind_of_error(lambda: service.start_replica(replica_launch())) is expected
    tested = kind_of_error(lambda: try_out(client))
    checked = kind_of_error(lambda: check(client))

    if expected in (EngineError, CommandNotFound):
        # The image's fault: the test run says so, and the preflight has it in its table.
        assert tested is (ImageTestFailed if step.endswith("start") else expected)
        assert checked is None
    else:
        assert tested is expected
        assert checked is expected


def test_addresses_that_are_used_up_are_the_same_error_to_the_service_and_the_preflight(
    engine: FakeDocker, client: docker.APIClient
) -> None:
    engine.refusals["POST networks/create"] = (400, "all predefined address pools have been fully subnetted")

    with closing(DockerEngine("test", engine.url)) as service:
        assert kind_of_error(lambda: service.start_replica(replica_launch())) is EngineBusy
    checked = kind_of_error(lambda: check(client))
    assert checked is EngineBusy


def try_out(client: docker.APIClient) -> None:
    """Run the image as the test run does."""
    limits = RunLimits(timeout_seconds=60)
    run_container(client, NAME, [], limits=limits, on_output=lambda *_: None, owner="me")


def check(client: docker.APIClient) -> None:
    """Run the image as the preflight does."""
    run_cluster(
        client,
        {MASTER: ContainerLaunch(image=NAME, host_name="master-0")},
        owner="me",
        watch_seconds=0,
        grace_seconds=0,
        find_login=lambda _: {},
        on_line=lambda _: None,
    )


def replica_launch() -> ReplicaLaunch:
    return ReplicaLaunch(
        job_uid="0123456789ab",
        job_id="job",
        project="project",
        replica=MASTER,
        attempt=Attempt(),
        image_id=NAME,
        host_name="master-0",
        command=(),
        args=(),
        environment={},
        resources=Resources(cpus=1, memory_bytes=2**26),
        pids_limit=64,
    )
