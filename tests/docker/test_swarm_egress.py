"""
What a job of a swarm reaches under ``TRAINING_EGRESS``, tried from its containers.

Beside its machine there are another machine, a neighbour with an address of each kind, and other jobs.
"""

from __future__ import annotations

import json
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import docker
import pytest
import sqlalchemy as sa

from container_engines.confinement import MACHINE_NAME
from container_engines.egress import mark_of, table_of
from container_engines.swarm.agent import AGENT_OF
from tests.support.bed.cluster_jobs import runs, submit
from tests.support.bed.egress_probe import PEER, TRY, reached
from tests.support.bed.job_watch import messages, until_state
from tests.support.bed.real_parts import end_all_jobs
from tests.support.bed.swarm import Swarm, drained
from tests.support.bed.swarm_service import Service, service_with_agents
from tests.support.ports import reserve_port
from tests.support.selection import cases
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef
from training_api.states import JobState
from training_service.store.database import read_meta

pytestmark = [
    pytest.mark.docker,
    pytest.mark.swarm,
    pytest.mark.needs_root,
    pytest.mark.needs_program("ip"),
    pytest.mark.needs_program("nft"),
    pytest.mark.timeout(600),
]

PROJECT = "demo-project"
#: RFC 3927, and RFC 5737: documentation, which to a packet filter is as public as any other.
LINK_LOCAL, PUBLIC = "169.254.214.2", "198.51.100.78"
#: What a job needs, and its own network.
NEEDED = {"metadata", "allowed", "peer"}
REACHED = {"internet": NEEDED | {"public"}, "none": NEEDED}
LISTEN = """
import socketserver, sys, threading
for port in sys.argv[1:]:
    server = socketserver.TCPServer(("", int(port)), socketserver.BaseRequestHandler)
    threading.Thread(target=server.serve_forever).start()
"""

Places = dict[str, tuple[str, str, int]]


@pytest.fixture(scope="module")
def places(swarm: Swarm) -> Iterator[Places]:
    """Everything that a job tries, all of which answers a machine of the swarm itself."""
    neighbour, machine, allowed = reserve_port(), reserve_port(), reserve_port()
    leg = f"{swarm.switch.name}-h"
    with ExitStack() as ends:
        for address in (LINK_LOCAL, PUBLIC):
            subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", leg], check=True)
            ends.callback(subprocess.run, ["ip", "addr", "del", f"{address}/32", "dev", leg], check=True)
        server = ends.enter_context(
            socketserver.ThreadingTCPServer(("", neighbour), socketserver.BaseRequestHandler)
        )
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}).start()
        ends.callback(server.shutdown)
        for node in swarm.nodes:
            process = node.run("listen", sys.executable, "-c", LISTEN, str(machine), str(allowed))
            ends.callback(process.wait)
            ends.callback(process.terminate)
        yield {
            "machine": ("tcp", MACHINE_NAME, machine),
            "own gateway": ("tcp", "", machine),
            **{f"address of {node.name}": ("tcp", node.address, machine) for node in swarm.nodes},
            "registry of all machines": ("tcp", swarm.switch.host_address, neighbour),
            "link-local": ("tcp", LINK_LOCAL, neighbour),
            "public": ("tcp", PUBLIC, neighbour),
            "metadata": ("http", MACHINE_NAME, reserve_port()),
            "allowed": ("tcp", MACHINE_NAME, allowed),
        }


@pytest.fixture(scope="module", params=cases(REACHED, witnesses=["none"]))
def mode(request: pytest.FixtureRequest) -> str:
    """A value of ``TRAINING_EGRESS``."""
    return str(request.param)


@pytest.fixture(scope="module")
def service(
    mode: str, swarm: Swarm, agent_image: ImageRef, places: Places, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A training service that closes what ``mode`` says."""
    variables = {
        "TRAINING_EGRESS": mode,
        "TRAINING_EGRESS_ALLOW": json.dumps([f"{MACHINE_NAME}:{places['allowed'][2]}"]),
        "TRAINING_AGENT_METADATA_PORT": str(places["metadata"][2]),
        "TRAINING_OVERCOMMIT": "40",
    }
    folder = tmp_path_factory.mktemp(f"egress-{mode}")
    with service_with_agents(swarm, agent_image, folder, variables) as service:
        yield service
        with TrainingClient(service.url, PROJECT) as client:
            end_all_jobs(client)


@pytest.fixture
def training(service: Service) -> Iterator[TrainingClient]:
    with TrainingClient(service.url, PROJECT) as client:
        yield client


def containers_of(engines: dict[str, docker.APIClient], job_id: str, role: str) -> list[tuple[str, str]]:
    """Return the machine and the id of each running container of a role of the job."""
    label = {"label": [f"container-training.job={job_id}", f"container-training.role={role}"]}
    return [
        (name, item["Id"]) for name, engine in engines.items() for item in engine.containers(filters=label)
    ]


def own_bridge_addresses(engines: dict[str, docker.APIClient], job_id: str) -> set[str]:
    """Return the addresses of the job's containers in the bridges of their machines."""
    found = set()
    for name, container in (
        each for role in ("master", "worker") for each in containers_of(engines, job_id, role)
    ):
        networks = engines[name].inspect_container(container)["NetworkSettings"]["Networks"]
        assert "docker_gwbridge" not in networks
        (address,) = (of["IPAddress"] for key, of in networks.items() if key.startswith("ct-out-"))
        found.add(address)
    return found


def kill_agent(engine: docker.APIClient) -> None:
    for agent in engine.containers(filters={"label": AGENT_OF}):
        engine.kill(agent["Id"])


def service_id_of(service: Service) -> str:
    engine = sa.create_engine(f"sqlite:///{service.database}")
    try:
        return read_meta(engine, "service_id")
    finally:
        engine.dispose()


@pytest.mark.proves("limits of what jobs reach", on="swarm with agents")
def test_a_job_reaches_what_it_needs_and_what_the_setting_says(
    training: TrainingClient,
    mode: str,
    places: Places,
    engines: dict[str, docker.APIClient],
    agent_image: ImageRef,
    job_id: str,
) -> None:
    other = f"{job_id}_other"
    submit(training, other, runs(agent_image, PEER), runs(agent_image, PEER), workers=3)
    until_state(training, other, JobState.RUNNING)
    others = own_bridge_addresses(engines, other)
    tried = places | {f"another job at {address}": ("tcp", address, 2222) for address in others}

    submit(training, job_id, runs(agent_image, TRY, json.dumps(tried)), runs(agent_image, PEER))
    until_state(training, job_id, JobState.SUCCEEDED)

    lines = messages(training, job_id)
    assert reached(lines) == REACHED[mode], "\n".join(lines)
    assert "master-replica-0: SAID demo-project" in lines


def test_replicas_on_one_machine_reach_each_other(
    training: TrainingClient,
    mode: str,
    swarm: Swarm,
    engines: dict[str, docker.APIClient],
    agent_image: ImageRef,
    job_id: str,
) -> None:
    with ExitStack() as ends:
        for node in swarm.nodes[1:]:
            ends.enter_context(drained(engines[swarm.manager.name], node.name))
        submit(training, job_id, runs(agent_image, TRY, "{}"), runs(agent_image, PEER))
        until_state(training, job_id, JobState.SUCCEEDED)

    lines = messages(training, job_id)
    assert reached(lines) == {"peer"}, "\n".join(lines)
    (own,) = [line for line in lines if ": OWN " in line]
    assert len(own.partition(": OWN ")[2].split()) == 1, own


def test_what_is_closed_stays_so_when_the_service_and_the_agents_are_killed(
    service: Service,
    training: TrainingClient,
    mode: str,
    places: Places,
    engines: dict[str, docker.APIClient],
    agent_image: ImageRef,
    job_id: str,
) -> None:
    submit(training, job_id, runs(agent_image, PEER), runs(agent_image, PEER))
    until_state(training, job_id, JobState.RUNNING)
    ((machine, container),) = containers_of(engines, job_id, "master")
    service.end(signal.SIGKILL)
    engine = engines[machine]
    kill_agent(engine)

    command = ["python3", "-u", "-c", TRY, json.dumps(places)]
    lines = engine.exec_start(engine.exec_create(container, command)["Id"]).decode()
    service.start()

    assert reached(lines.splitlines()) - {"metadata"} == REACHED[mode] - {"metadata"}, lines


def test_a_machine_whose_rules_are_gone_gets_them_again(
    service: Service, engines: dict[str, docker.APIClient], swarm: Swarm
) -> None:
    node = swarm.nodes[1]

    table = table_of(mark_of(service_id_of(service)))

    def nft(*arguments: str) -> str:
        command = ["ip", "netns", "exec", node.namespace.name, "nft", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    wait_until(lambda: table in nft("list", "tables"), "the rules are there")
    nft("delete", "table", "inet", table)
    engine = engines[node.name]
    kill_agent(engine)

    wait_until(lambda: table in nft("list", "tables"), "the next agent has made the rules again")
