"""
Bad networks between service, engine, registry and database.

Every job ends as it must, no line is lost or doubled, and nothing is left on the engine. The services of
all faults run at once: they wait for most of the time, for connections that are dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from docker.utils import kwargs_from_env

from local_stack.stack import LocalStack
from tests.docker.troubled_jobs import check_log, check_nothing_is_left, run_service, submit, wait_for_ends
from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.bed.job_watch import until_state
from tests.support.bed.postgresql import PostgresServer
from tests.support.bed.registry import REPOSITORY, push, registry_program, run_registry
from tests.support.bed.service_process import PROJECT, ServiceProcess
from tests.support.ports import reserve_port
from tests.support.selection import cases, chosen_values
from tests.support.speed import scaled, slowness
from tests.support.waiting import wait_until
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.errors import TrainingError
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

#: How long a fault lasts; a job takes about as long from its submission to its end.
FAULT_SECONDS = 3.0

#: What became of the jobs of each fault: nothing, or why they did not end well.
Outcomes = Mapping[Fault, Future[None]]


@pytest.fixture(scope="module")
def behind_the_service(
    request: pytest.FixtureRequest,
    stack: LocalStack,
    base_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Outcomes]:
    """Jobs of a service a fault, before its engine, and between the engine and the registry."""

    def check(fault: Fault) -> None:
        folder = tmp_path_factory.mktemp(fault.name)
        with (
            closing(docker.APIClient(**kwargs_from_env(), timeout=scaled(60))) as engine,
            behind_proxies(stack, engine, base_image, folder) as bed,
        ):
            check_engine_and_registry(bed, fault)

    with for_each_fault(request, check) as outcomes:
        yield outcomes


@pytest.fixture(scope="module")
def before_the_database(
    request: pytest.FixtureRequest,
    stack: LocalStack,
    postgresql: PostgresServer,
    pushed_image: ImageRef,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Outcomes]:
    """Jobs of a service a fault, which is between it and PostgreSQL."""

    def check(fault: Fault) -> None:
        folder = tmp_path_factory.mktemp(fault.name)
        check_database(postgresql, stack, pushed_image, folder, fault)

    with for_each_fault(request, check) as outcomes:
        yield outcomes


@contextmanager
def for_each_fault(request: pytest.FixtureRequest, check: Callable[[Fault], None]) -> Iterator[Outcomes]:
    with ThreadPoolExecutor(len(Fault)) as threads:
        yield {fault: threads.submit(check, fault) for fault in chosen_values(request, "fault")}


# The other two wait for timeouts of dead connections, a minute each.
@pytest.mark.parametrize("fault", cases(Fault, witnesses=[Fault.LATENCY, Fault.RESET]))
def test_jobs_end_well_on_a_bad_network(behind_the_service: Outcomes, fault: Fault) -> None:
    behind_the_service[fault].result()


@pytest.mark.extended
@pytest.mark.postgresql
@pytest.mark.parametrize("fault", list(Fault))
def test_jobs_end_well_on_a_bad_network_to_the_database(before_the_database: Outcomes, fault: Fault) -> None:
    before_the_database[fault].result()


@dataclass(frozen=True, kw_only=True)
class Bed:
    """
    A service of a fault's own.

    :param proxies: between the service and its engine, and between the engine and the registry.
    """

    service: ServiceProcess
    client: TrainingClient
    image: ImageRef
    proxies: Mapping[str, FaultyProxy]


@contextmanager
def behind_proxies(
    stack: LocalStack, engine_client: docker.APIClient, base_image: str, folder: Path
) -> Iterator[Bed]:
    """Run a service behind whose engine, and the engine's registry, stand proxies."""
    program, address = registry_program(stack), ("127.0.0.1", reserve_port())
    digest = push(program, folder, engine_client, base_image)
    with (
        run_registry(program, folder, ":".join(map(str, address))),
        FaultyProxy(stack.settings.engine_socket) as engine,
        FaultyProxy(address) as registry,
        run_service(folder, f"tcp://127.0.0.1:{engine.port}") as (service, client),
    ):
        image = parse_image_ref(f"127.0.0.1:{registry.port}/{REPOSITORY}@{digest}")
        yield Bed(
            service=service, client=client, image=image, proxies={"engine": engine, "registry": registry}
        )
        check_nothing_is_left(engine_client, service)
        engine_client.remove_image(str(image))


def check_engine_and_registry(bed: Bed, fault: Fault) -> None:
    names = [f"job_{number}" for number in range(6)]
    #: Runs through all faults, so that its samples must go on after them.
    through = "job_through"
    submit(bed.client, bed.image, [through], "import time; time.sleep(3600)")
    until_sampled(bed.service, through, after=0.0)

    for place, batch in (("registry", names[:2]), ("engine", names[2:4])):
        bed.proxies[place].suffer(fault)
        submit(bed.client, bed.image, batch)
        time.sleep(slowness() * FAULT_SECONDS)
        bed.proxies[place].heal()
    submit(bed.client, bed.image, names[4:])
    # A job of two seconds may be over before anybody has seen it run.
    wait_until(
        lambda: bed.client.get_job(names[5]).state in (JobState.RUNNING, JobState.SUCCEEDED),
        "the last job runs",
    )
    bed.proxies["engine"].suffer(fault)
    time.sleep(slowness() * FAULT_SECONDS)
    bed.proxies["engine"].heal()
    healed_at = time.time()

    wait_for_ends(bed.client, names)
    until_sampled(bed.service, through, after=healed_at)
    bed.client.cancel_job(through)
    until_state(bed.client, through, JobState.CANCELLED)
    for name in names:
        check_log(bed.client, name)


def check_database(
    postgresql: PostgresServer, stack: LocalStack, image: ImageRef, folder: Path, fault: Fault
) -> None:
    names = [f"job_{number}" for number in range(4)]
    docker_host = f"unix://{stack.settings.engine_socket}"
    with (
        closing(docker.APIClient(**kwargs_from_env(), timeout=scaled(60))) as engine,
        FaultyProxy(postgresql.socket) as network,
        run_service(folder, docker_host, postgresql.make_database(port=network.port)) as (service, client),
        service.supervised(),
    ):
        for batch in (names[:2], names[2:]):
            submit(client, image, batch)
            network.suffer(fault)
            time.sleep(slowness() * FAULT_SECONDS)
            network.heal()

        wait_for_ends(client, names)
        for name in names:
            check_log(client, name)
        check_nothing_is_left(engine, service)


def until_sampled(service: ServiceProcess, name: str, *, after: float) -> None:
    """Wait for a sample of the job that is newer than ``after``, seconds since the epoch."""
    with OpsClient(service.endpoint, PROJECT) as ops:

        def is_sampled() -> bool:
            return any(series.times[-1] > after for series in ops.usage(name).series)

        # The longest pause after samples that failed is a minute.
        wait_until(is_sampled, f"{name} is sampled", seconds=120, poll_seconds=0.5, ignoring=TrainingError)
