"""
Bad networks, and kills under load.

Every job ends as it must, no line is lost or doubled, and nothing is left on the engine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import docker
import pytest

from container_engines.labels import JOB_UID, SERVICE
from local_stack.stack import LocalStack
from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.bed.job_watch import until_state
from tests.support.bed.postgresql import PostgresServer, running_server
from tests.support.bed.registry import REPOSITORY, push, registry_program, run_registry
from tests.support.bed.service_process import PROJECT, ServiceProcess
from tests.support.bed.swarm import Swarm
from tests.support.ports import reserve_port
from tests.support.speed import slowness
from tests.support.waiting import wait_until
from training_api.clients.fleet import OpsClient
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import TrainingError
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

LINES = 20
PROGRAM = f"""
import time
for number in range({LINES}):
    print(number, flush=True)
    time.sleep(0.1)
"""
#: How long a fault lasts; a job takes about as long from its submission to its end.
FAULT_SECONDS = 3.0
JOBS_UNDER_LOAD = 40
KILLS = 6


@dataclass(frozen=True, kw_only=True)
class Bed:
    """
    A service of a test's own.

    :param proxies: between the service and its engine, and between the engine and the registry.
    """

    service: ServiceProcess
    client: TrainingClient
    image: ImageRef
    proxies: dict[str, FaultyProxy]


@pytest.fixture
def bed(stack: LocalStack, base_image: str, engine_client: docker.APIClient, tmp_path: Path) -> Iterator[Bed]:
    """A service behind whose engine, and the engine's registry, stand proxies with faults."""
    program, address = registry_program(stack), ("127.0.0.1", reserve_port())
    digest = push(program, tmp_path, engine_client, base_image)
    with (
        run_registry(program, tmp_path, ":".join(map(str, address))),
        FaultyProxy(stack.settings.engine_socket) as engine,
        FaultyProxy(address) as registry,
        run_service(tmp_path, f"tcp://127.0.0.1:{engine.port}") as (service, client),
    ):
        image = parse_image_ref(f"127.0.0.1:{registry.port}/{REPOSITORY}@{digest}")
        yield Bed(
            service=service, client=client, image=image, proxies={"engine": engine, "registry": registry}
        )
        check_nothing_is_left(engine_client, service)
        engine_client.remove_image(str(image))


@contextmanager
def run_service(
    folder: Path, docker_host: str, database_url: str = ""
) -> Iterator[tuple[ServiceProcess, TrainingClient]]:
    service = ServiceProcess(
        folder,
        database_url,
        TRAINING_DOCKER_HOST=docker_host,
        TRAINING_OVERCOMMIT="40",
        TRAINING_STOP_GRACE_SECONDS="2",
        TRAINING_PULL_SILENCE_SECONDS="5",
    )
    with ExitStack() as ends:
        ends.callback(remove_what_is_left, docker_host, service)
        ends.callback(service.kill)
        service.start()
        yield service, ends.enter_context(service.client())


def remove_what_is_left(docker_host: str, service: ServiceProcess) -> None:
    """After a test that has failed: forty networks are all that an engine has."""
    own = {"label": f"{SERVICE}={service.service_id}"}
    with closing(docker.APIClient(base_url=docker_host)) as engine:
        for container in engine.containers(all=True, filters=own):
            engine.remove_container(container["Id"], force=True, v=True)
        for network in engine.networks(filters=own):
            engine.remove_network(network["Id"])


def submit(client: TrainingClient, image: ImageRef, names: Sequence[str], program: str = PROGRAM) -> None:
    """Create a job of each name; ask a service that does not answer again, as operators do."""
    config = ReplicaConfig(image_uri=str(image), container_command=["python3", "-u", "-c", program])
    for name in names:
        job = Job(job_id=name, training_input=TrainingInput(region="us-central1", master_config=config))
        wait_until(lambda job=job: is_created(client, job), f"{name} is created", ignoring=TrainingError)


def is_created(client: TrainingClient, job: Job) -> bool:
    """Create the job unless it is there: an answer may be lost after the job was stored."""
    if job.job_id not in {known.job_id for known in client.list_jobs(f"jobId={job.job_id}").jobs or []}:
        client.create_job(job)
    return True


def wait_for_ends(client: TrainingClient, names: Sequence[str]) -> None:
    """Return when all have ended; fails unless all have succeeded."""
    ended: dict[str, Job] = {}

    def all_have() -> bool:
        for name in names:
            if name not in ended and (job := client.get_job(name)).state and job.state.is_terminal:
                ended[name] = job
        assert len(ended) == len(names), f"{len(ended)} of {len(names)} have ended"
        return True

    wait_until(
        all_have,
        "all jobs have ended",
        seconds=240,
        poll_seconds=0.5,
        ignoring=(TrainingError, AssertionError),
    )
    assert {
        name: job.error_message for name, job in ended.items() if job.state is not JobState.SUCCEEDED
    } == {}


def until_sampled(service: ServiceProcess, name: str, *, after: float) -> None:
    """Wait for a sample of the job that is newer than ``after``, seconds since the epoch."""
    with OpsClient(service.endpoint, PROJECT) as ops:

        def is_sampled() -> bool:
            return any(series.times[-1] > after for series in ops.usage(name).series)

        # The longest pause after samples that failed is a minute.
        wait_until(is_sampled, f"{name} is sampled", seconds=120, poll_seconds=0.5, ignoring=TrainingError)


def check_log(
    client: TrainingClient, name: str, engine_kills: Sequence[tuple[datetime, datetime]] = ()
) -> None:
    """
    Every run of the program is there without a gap or a double, and the last one is whole.

    An engine that is killed loses the line that it has just read, and what its containers write until
    the next one starts (both seen on 20.10; the program ends with status 0 all the same). So lines may be
    missing where the engine was killed between the lines around them, or after the last one.

    :param engine_kills: of each kill, when it was begun and when the engine was dead.
    """
    entries = client.list_log_entries(job_log_filter(name), page_size=1000).entries or []
    lines = [(int(entry.message), entry.timestamp) for entry in entries if entry.message.isdigit()]
    found = f"{name}: {[number for number, _ in lines]}"

    def was_killed_between(begin: datetime, end: datetime) -> bool:
        return any(begin <= dead and begun <= end for begun, dead in engine_kills)

    assert lines, found
    assert lines[0][0] == 0, found
    for (number, at), (following, then) in pairwise(lines):
        is_whole = following in (number + 1, 0)
        assert is_whole or (was_killed_between(at, then) and (following > number or following == 1)), found
    end = client.get_job(name).end_time
    assert end is not None
    last, at = lines[-1]
    assert last == LINES - 1 or was_killed_between(at, end), found


def check_nothing_is_left(engine: docker.APIClient, service: ServiceProcess) -> None:
    """Wait until the engine has neither containers nor networks of the service's jobs."""
    own = {"label": [f"{SERVICE}={service.service_id}", JOB_UID]}
    wait_until(
        lambda: not engine.containers(all=True, filters=own) and not engine.networks(filters=own),
        "no container and no network is left",
        seconds=120,
    )


@pytest.mark.parametrize("fault", list(Fault))
def test_jobs_end_well_on_a_bad_network(bed: Bed, fault: Fault, job_id: str) -> None:
    names = [f"{job_id}_{number}" for number in range(6)]
    #: Runs through all faults, so that its samples must go on after them.
    through = f"{job_id}_through"
    submit(bed.client, bed.image, [through], "import time; time.sleep(3600)")
    until_sampled(bed.service, through, after=0.0)

    for place, batch in (("registry", names[:2]), ("engine", names[2:4])):
        bed.proxies[place].suffer(fault)
        submit(bed.client, bed.image, batch)
        time.sleep(slowness() * FAULT_SECONDS)
        bed.proxies[place].heal()
    submit(bed.client, bed.image, names[4:])
    until_state(bed.client, names[5], JobState.RUNNING)
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


@pytest.mark.postgresql
@pytest.mark.parametrize("fault", list(Fault))
def test_jobs_end_well_on_a_bad_network_to_the_database(
    postgresql: PostgresServer,
    stack: LocalStack,
    pushed_image: ImageRef,
    engine_client: docker.APIClient,
    tmp_path: Path,
    job_id: str,
    fault: Fault,
) -> None:
    names = [f"{job_id}_{number}" for number in range(4)]
    docker_host = f"unix://{stack.settings.engine_socket}"
    with (
        FaultyProxy(postgresql.socket) as network,
        run_service(tmp_path, docker_host, postgresql.make_database(port=network.port)) as (service, client),
        service.supervised(),
    ):
        for batch in (names[:2], names[2:]):
            submit(client, pushed_image, batch)
            network.suffer(fault)
            time.sleep(slowness() * FAULT_SECONDS)
            network.heal()

        wait_for_ends(client, names)
        for name in names:
            check_log(client, name)
        check_nothing_is_left(engine_client, service)


@pytest.mark.postgresql
def test_forty_jobs_end_well_while_service_and_database_are_killed(
    stack: LocalStack, pushed_image: ImageRef, engine_client: docker.APIClient, tmp_path: Path, job_id: str
) -> None:
    chance = random.Random(15)
    names = [f"{job_id}_{number}" for number in range(JOBS_UNDER_LOAD)]
    docker_host = f"unix://{stack.settings.engine_socket}"
    with (
        running_server() as database,
        run_service(tmp_path, docker_host, database.make_database()) as (service, client),
        service.supervised(),
    ):
        submit(client, pushed_image, names)
        for kill in range(KILLS):
            time.sleep(slowness() * chance.uniform(0.5, 4))
            if kill % 2:
                service.kill()
            else:
                database.kill()
                database.start()
        wait_for_ends(client, names)
        for name in names:
            check_log(client, name)
        check_nothing_is_left(engine_client, service)


@pytest.mark.swarm
def test_forty_jobs_end_well_while_service_and_engine_are_killed(
    swarm: Swarm, swarm_image: ImageRef, tmp_path: Path, job_id: str
) -> None:
    # Any machine of the swarm is an engine for itself, too; this one manages nothing.
    machine = swarm.nodes[1]
    chance = random.Random(15)
    names = [f"{job_id}_{number}" for number in range(JOBS_UNDER_LOAD)]

    with run_service(tmp_path, machine.docker_host) as (service, client):
        submit(client, swarm_image, names)
        engine_kills = []
        for _ in range(KILLS):
            time.sleep(slowness() * chance.uniform(0.5, 4))
            if chance.random() < 0.5:
                restart(service)
            else:
                begun = datetime.now(UTC)
                machine.kill_engine()
                engine_kills.append((begun, datetime.now(UTC)))
                machine.start_engine()
        wait_for_ends(client, names)
        for name in names:
            check_log(client, name, engine_kills)
        engine = machine.client()
        check_nothing_is_left(engine, service)
        engine.close()


def restart(service: ServiceProcess) -> None:
    service.kill()
    service.start()
