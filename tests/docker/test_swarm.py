"""
Jobs on several machines.

Replicas are spread, find each other by name, outlive a machine, and leave nothing behind.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from container_engines.base import ReplicaLaunch, StillStarting
from container_engines.swarm.engine import SwarmEngine
from tests.support.bed.job_watch import messages, messages_that, until_state
from tests.support.bed.machines import Node, remove_leftovers
from tests.support.bed.swarm import Swarm, drained
from tests.support.bed.swarm_parts import LockedImage
from tests.support.bed.swarm_service import Service
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import EngineUnavailable, ImageNotFound
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt
from training_api.states import JobState

pytestmark = pytest.mark.docker

PROJECT = "demo-project"
WORKERS = 3
#: A worker answers with its name and a number that is another one each time it is started. The master meets
#: all of them, and once more when ``again`` is asked for: with one that was started again among them.
MEET = """
import json, os, random, socket, socketserver, sys, threading, time
spec = json.loads(os.environ["CLUSTER_SPEC"])
run = random.random()

class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(f"worker-{spec['task']['index']} {run}".encode())

def meet():
    met = {}
    for host in spec["cluster"]["worker"]:
        name, port = host.split(":")
        while name not in met:
            try:
                with socket.create_connection((name, int(port)), timeout=2) as peer:
                    met[name] = peer.makefile().read()
            except OSError:
                time.sleep(0.2)
    return met

if spec["task"]["type"] == "worker":
    print("up", flush=True)
    socketserver.ThreadingTCPServer(("", 2222), Answer).serve_forever()
first = meet()
print("met", json.dumps(sorted(text.split()[0] for text in first.values())), flush=True)
if "again" in sys.argv:
    # A round that began before a machine died has old and new answers: two equal rounds have none but new ones.
    last = first
    while (now := meet()) == first or now != last:
        last = now
        time.sleep(0.5)
    print("met again", sum(now[name] != first[name] for name in now), flush=True)
"""
COUNT = "import time\nfor number in range(60): print('line', number, flush=True); time.sleep(0.25)"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def service(swarm: Swarm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("swarm-service"), swarm.manager.docker_host)
    service.start()
    yield service
    service.end(signal.SIGTERM)


@pytest.fixture
def training(service: Service) -> Iterator[TrainingClient]:
    with TrainingClient(service.url, PROJECT) as client:
        yield client


@pytest.fixture
def submit(training: TrainingClient, swarm_image: ImageRef, job_id: str) -> Callable[..., str]:
    """Submit a master and three workers that all run ``program``."""

    def submit(program: str, *args: str) -> str:
        config = ReplicaConfig(
            image_uri=str(swarm_image),
            container_command=["python3", "-u", "-c", program],
            container_args=list(args) or None,
        )
        training_input = TrainingInput(
            region="us-central1",
            scale_tier="CUSTOM",
            master_type="n1-standard-4",
            master_config=config,
            worker_type="n1-standard-4",
            worker_count=WORKERS,
            worker_config=config,
        )
        training.create_job(Job(job_id=job_id, training_input=training_input))
        return job_id

    return submit


@pytest.fixture(autouse=True)
def nothing_is_left(engines: dict[str, docker.APIClient], job_id: str) -> Iterator[None]:
    """After each test the job's services, networks and containers are gone, on every machine."""
    yield
    label = {"label": f"container-training.job={job_id}"}
    manager = engines["node1"]
    wait_until(
        lambda: not manager.services(filters=label) and not manager.networks(filters=label),
        "the job's services and networks are gone",
        seconds=120,
    )
    wait_until(
        lambda: not any(engine.containers(all=True, filters=label) for engine in engines.values()),
        "the job's containers are gone",
        seconds=120,
    )
    wait_until(
        lambda: not any(engine.networks(filters=label) for engine in engines.values()),
        "no machine has the job's networks",
    )


def machines(engines: dict[str, docker.APIClient], job_id: str) -> dict[str, str]:
    """Return the machine of each running container of the job, by the replica's host name."""
    label = {"label": f"container-training.job={job_id}"}
    found: list[tuple[str, dict[str, Any]]] = [
        (name, engine.inspect_container(item["Id"]))
        for name, engine in engines.items()
        for item in engine.containers(filters=label)
    ]
    return {container["Config"]["Hostname"]: name for name, container in found}


def lines_written(engines: dict[str, docker.APIClient], job_id: str) -> int:
    """Return how many lines the job's running containers have written, as their engines know."""
    label = {"label": f"container-training.job={job_id}"}
    return sum(
        engine.logs(item["Id"]).count(b"\n")
        for engine in engines.values()
        for item in engine.containers(filters=label)
    )


def wait_until_met(training: TrainingClient, job_id: str) -> None:
    wait_until(
        lambda: any("met" in line for line in messages(training, job_id)),
        "the master has met the workers",
        seconds=120,
    )


@pytest.mark.proves("replicas find each other by name", on="swarm")
def test_replicas_are_spread_and_meet_by_name(
    training: TrainingClient,
    submit: Callable[..., str],
    engines: dict[str, docker.APIClient],
    swarm_image: ImageRef,
) -> None:
    job_id = submit(MEET, "again")

    until_state(training, job_id, JobState.RUNNING)
    wait_until_met(training, job_id)
    placed = machines(engines, job_id)
    training.cancel_job(job_id)
    until_state(training, job_id, JobState.CANCELLED)

    (met,) = [line for line in messages(training, job_id) if line.startswith("master-replica-0: met")]
    assert json.loads(met.partition("met ")[2]) == ["worker-0", "worker-1", "worker-2"]
    assert len(placed) == 1 + WORKERS
    assert set(placed.values()) == {"node1", "node2", "node3"}
    for engine in engines.values():
        assert engine.images(swarm_image.name), "no machine had the image before: it came from the registry"


@pytest.mark.extended
@pytest.mark.proves("lost replicas are started again", on="swarm")
def test_a_machine_that_dies_costs_a_restart(
    training: TrainingClient,
    submit: Callable[..., str],
    swarm: Swarm,
    engines: dict[str, docker.APIClient],
) -> None:
    job_id = submit(MEET, "again")
    wait_until_met(training, job_id)
    placed = machines(engines, job_id)
    (masters,) = [name for host, name in placed.items() if "master" in host]
    victim: Node = next(node for node in swarm.nodes[1:] if node.name != masters)
    lost = [host for host, name in placed.items() if name == victim.name]
    assert lost

    victim.power_off()
    try:
        until_state(training, job_id, JobState.SUCCEEDED)
    finally:
        victim.start()
        swarm.wait_for_ready()

    lines = messages(training, job_id)
    assert f"master-replica-0: met again {len(lost)}" in lines
    assert any("was lost" in line and "restart 1 of 5" in line for line in lines)


@pytest.mark.proves("cancel", on="swarm")
def test_a_cancelled_job_ends_on_every_machine(
    training: TrainingClient, submit: Callable[..., str], engines: dict[str, docker.APIClient]
) -> None:
    job_id = submit(SLEEP)

    def are_up() -> bool:
        return sum(line.endswith("-replica-0: up") for line in messages(training, job_id)) == 2

    wait_until(are_up, "both replicas are up", seconds=120)

    training.cancel_job(job_id)

    until_state(training, job_id, JobState.CANCELLED)
    assert machines(engines, job_id) == {}
    assert are_up()


@pytest.mark.extended
@pytest.mark.proves("logs, whole and in order", on="swarm")
@pytest.mark.proves("log search by filter", on="swarm")
def test_a_killed_service_takes_its_job_over_again(
    training: TrainingClient,
    submit: Callable[..., str],
    service: Service,
    engines: dict[str, docker.APIClient],
) -> None:
    job_id = submit(COUNT)
    until_state(training, job_id, JobState.RUNNING)

    service.end(signal.SIGKILL)
    before = lines_written(engines, job_id)
    wait_until(
        lambda: lines_written(engines, job_id) >= before + 8 * (1 + WORKERS),
        "the job has written more lines without a service",
    )
    service.start()
    until_state(training, job_id, JobState.SUCCEEDED)

    counted = [line for line in messages(training, job_id) if line.startswith("master-replica-0: line")]
    assert counted == [f"master-replica-0: line {number}" for number in range(60)]
    searched = 'resource.labels.task_name="master-replica-0" AND textPayload:"line 1"'
    assert messages_that(training, job_id, searched) == ["line 1", *(f"line {n}" for n in range(10, 20))]


@pytest.mark.extended
@pytest.mark.proves("images that need a token", on="swarm")
def test_machines_pull_with_the_token_that_the_job_got(
    swarm: Swarm, locked_image: LockedImage, engines: dict[str, docker.APIClient]
) -> None:
    engine = SwarmEngine(
        f"test-{uuid.uuid4().hex}", swarm.manager.docker_host, stop_grace_seconds=1, prepare_seconds=300
    )
    with pytest.raises(ImageNotFound):
        engine.pull_image(locked_image.ref)

    pulled = engine.pull_image(locked_image.ref, locked_image.token)
    launch = ReplicaLaunch(
        job_uid=uuid.uuid4().hex[:12],
        job_id="job",
        project=PROJECT,
        replica=ReplicaId(role=ReplicaRole.MASTER),
        attempt=Attempt(),
        image_id=pulled.image_id,
        host_name="master",
        command=("python3", "-c", "print(42)"),
        args=(),
        environment={},
        resources=Resources(cpus=1, memory_bytes=64 * 1024**2),
        pids_limit=64,
    )
    engine.start_replica(launch)
    wait_until(lambda: engine.observe().replicas[0].exit_code == 0, "the replica has ended well", seconds=120)
    engine.remove_job(launch.job_uid)
    engine.close()

    # A service that was started anew has no token, and says that the image is to be asked for again.
    other = SwarmEngine(
        f"test-{uuid.uuid4().hex}", swarm.manager.docker_host, stop_grace_seconds=1, prepare_seconds=300
    )
    for each in engines.values():
        for image in each.images(locked_image.ref.name):
            each.remove_image(image["Id"], force=True)
    with pytest.raises(ImageNotFound):
        other.start_replica(launch)
    other.remove_job(launch.job_uid)
    other.close()


@pytest.mark.extended
def test_a_replica_runs_on_its_machine_and_waits_while_that_is_promised_to_others(
    swarm: Swarm, swarm_image: ImageRef, engines: dict[str, docker.APIClient]
) -> None:
    engine = SwarmEngine(f"test-{uuid.uuid4().hex}", swarm.manager.docker_host, stop_grace_seconds=1)
    ids = {item["Description"]["Hostname"]: item["ID"] for item in engines["node1"].nodes()}
    third, size = ids["node3"], engine.hosts()[ids["node3"]]
    most = replace(size, cpus=size.cpus / 2, memory_bytes=size.memory_bytes * 2 // 3)
    launch = ReplicaLaunch(
        job_uid=uuid.uuid4().hex[:12],
        job_id="job",
        project=PROJECT,
        replica=ReplicaId(role=ReplicaRole.MASTER),
        attempt=Attempt(),
        image_id=engine.pull_image(swarm_image).image_id,
        host_name="master",
        command=("sleep", "600"),
        args=(),
        environment={},
        resources=Resources(cpus=1, memory_bytes=64 * 1024**2),
        pids_limit=64,
        machine=third,
        reserved=most,
    )
    start_when_pulled(engine, launch)
    (master,) = engine.observe().replicas
    assert master.machine == third

    worker = replace(
        launch,
        replica=ReplicaId(role=ReplicaRole.WORKER, index=0),
        host_name="worker",
        command=("sleep", "601"),
    )
    with pytest.raises(EngineUnavailable, match=r"still waits after 10 s: .*insufficient resources"):
        engine.start_replica(worker)
    # What waited was taken back, so it does not start behind the service's back.
    assert [each.replica for each in engine.observe().replicas] == [launch.replica]

    start_when_pulled(engine, replace(worker, machine=ids["node2"]))
    assert {each.machine for each in engine.observe().replicas} == {third, ids["node2"]}
    engine.remove_job(launch.job_uid)
    engine.close()


def start_when_pulled(engine: SwarmEngine, launch: ReplicaLaunch) -> None:
    """Start a replica, however long its machine pulls the image."""

    def has_started() -> bool:
        try:
            engine.start_replica(launch)
        except StillStarting:
            return False
        return True

    wait_until(has_started, f"{launch.host_name} runs", seconds=120)


def test_a_drained_machine_is_none_and_networks_are_counted(
    swarm: Swarm, engines: dict[str, docker.APIClient]
) -> None:
    manager = engines["node1"]
    engine = SwarmEngine(f"test-{uuid.uuid4().hex}", swarm.manager.docker_host)
    assert len(engine.hosts()) == 3

    with drained(manager, "node2") as second:
        assert second not in engine.hosts()

    # 10.0.0.0/8 in parts of 256 addresses, of which the swarm's own network has one.
    assert 60_000 < (engine.max_networks() or 0) < 2**16
    assert engine.max_job_replicas() == 2**8 - 3 - 3
    engine.close()


def test_machines_end_with_the_tests_and_the_next_tests_clean_up() -> None:
    program = (
        "from tests.support.bed.swarm import Swarm; swarm = Swarm(1, [5000]); swarm.up();"
        "print(swarm.name, flush=True); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        process.kill()

    wait_until(lambda: not processes_of(name), "the machines' processes have ended")
    remove_leftovers()

    # With the hyphen: names end in the number of a process, which others may begin with.
    left = [*Path("/run/netns").glob(f"{name}-*"), *Path("/var/tmp").glob(name)]
    left += [*Path("/sys/class/net").glob(f"{name}-*"), *Path("/sys/fs/cgroup").glob(f"*/{name}-*")]
    assert left == []


def processes_of(name: str) -> list[str]:
    """Return the command lines of the processes of that run's machines."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in commands if re.search(rf"/{name}\b", command)]
