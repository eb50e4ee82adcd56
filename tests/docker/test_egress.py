"""
What a job reaches, tried from its containers, under each value of ``TRAINING_EGRESS``.

Beside the machine stands a neighbour with an address of each kind: link-local, private and public.
"""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import docker
import psutil
import pytest

from container_engines.labels import JOB_UID, SERVICE
from local_stack.parts.gateway import find_gateway
from local_stack.settings import CONTAINER_HOST_NAME
from local_stack.stack import LocalStack
from tests.support.bed.cluster_jobs import runs, submit, submit_alone
from tests.support.bed.egress_probe import PEER, TRY, reached
from tests.support.bed.job_watch import messages, until_state
from tests.support.bed.real_parts import end_all_jobs
from tests.support.bed.service_process import ServiceProcess
from tests.support.ports import reserve_port
from tests.support.run_id import exclusive
from tests.support.selection import cases
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [
    pytest.mark.docker,
    pytest.mark.needs_root,
    pytest.mark.needs_program("ip"),
    pytest.mark.needs_program("nft"),
    pytest.mark.timeout(600),
]

#: RFC 3927, RFC 1918, and RFC 5737: documentation, which to a packet filter is as public as any other.
LINK_LOCAL, LAN, PUBLIC = "169.254.213.2", "10.213.77.2", "198.51.100.77"
_GATEWAY = "10.213.77.1"
_NAMESPACE, _LEG = "ct-neighbour", "ct-neighb0"
#: Answers on a TCP port of all addresses, and as a name server would on UDP port 53.
NEIGHBOUR = """
import socketserver, sys, threading
names = socketserver.UDPServer(("", 53), type("Names", (socketserver.DatagramRequestHandler,), {
    "handle": lambda self: self.wfile.write(b"answer")}))
threading.Thread(target=names.serve_forever, daemon=True).start()
socketserver.TCPServer(("", int(sys.argv[1])), socketserver.BaseRequestHandler).serve_forever()
"""
#: What a job needs, and its own network.
NEEDED = {"metadata", "object store", "allowed", "peer"}
REACHED = {
    "open": NEEDED | {"LAN", "name server", "public"},
    "internet": NEEDED | {"name server", "public"},
    "none": NEEDED,
}


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)


@pytest.fixture(scope="module")
def neighbour() -> Iterator[int]:
    """Another machine beside this one, in a namespace; the port on which it listens."""
    with exclusive("neighbour"):
        _ip("netns", "del", _NAMESPACE, check=False)  # of a run that was killed
        _ip("netns", "add", _NAMESPACE)
        try:
            _ip("link", "add", _LEG, "type", "veth", "peer", "name", "eth0", "netns", _NAMESPACE)
            _ip("addr", "add", f"{_GATEWAY}/24", "dev", _LEG)
            _ip("link", "set", _LEG, "up")
            for address in (f"{LAN}/24", f"{LINK_LOCAL}/32", f"{PUBLIC}/32"):
                _ip("-n", _NAMESPACE, "addr", "add", address, "dev", "eth0")
            _ip("-n", _NAMESPACE, "link", "set", "eth0", "up")
            for address in (LINK_LOCAL, PUBLIC):
                _ip("route", "add", f"{address}/32", "dev", _LEG)
            port = reserve_port()
            command = ["ip", "netns", "exec", _NAMESPACE, sys.executable, "-c", NEIGHBOUR, str(port)]
            with subprocess.Popen(command) as process:
                for address in (LINK_LOCAL, LAN, PUBLIC):
                    wait_until(
                        lambda address=address: socket.create_connection((address, port), 5).close() or True,  # type: ignore[misc]
                        f"{address} listens",
                        ignoring=OSError,
                    )
                yield port
                process.terminate()
        finally:
            _ip("netns", "del", _NAMESPACE, check=False)


class _Names(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request[1].sendto(b"answer", self.client_address)


@contextmanager
def listeners(*ports: int) -> Iterator[None]:
    """Listen on all addresses of this machine, with TCP, and on the first port with UDP, too."""
    with ExitStack() as open_ones:
        servers: list[socketserver.BaseServer] = [
            socketserver.TCPServer(("", port), socketserver.BaseRequestHandler) for port in ports
        ]
        for server in [*servers, socketserver.UDPServer(("", ports[0]), _Names)]:
            open_ones.enter_context(server)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}).start()
            open_ones.callback(server.shutdown)
        yield


@pytest.fixture(scope="module")
def places(neighbour: int, stack: LocalStack) -> Iterator[dict[str, tuple[str, str, int]]]:
    """Everything that a job tries, all of which answers this machine itself."""
    machine, allowed = reserve_port(), reserve_port()
    addresses = [
        address.address
        for name, of_interface in psutil.net_if_addrs().items()
        for address in of_interface
        if address.family is socket.AF_INET and name.startswith("e")
    ]
    gateway = find_gateway(stack.settings.engine_url) or ""
    with listeners(machine, allowed):
        yield {
            "host": ("tcp", CONTAINER_HOST_NAME, machine),
            "own gateway": ("tcp", "", machine),
            **{f"host at {address}": ("tcp", address, machine) for address in addresses},
            "host as the neighbour sees it": ("tcp", _GATEWAY, machine),
            "host by broadcast": ("broadcast", "255.255.255.255", machine),
            "link-local": ("tcp", LINK_LOCAL, neighbour),
            "LAN": ("tcp", LAN, neighbour),
            "public": ("tcp", PUBLIC, neighbour),
            "name server": ("udp", LAN, 53),
            "metadata": ("http", gateway, reserve_port()),
            "object store": ("http", CONTAINER_HOST_NAME, stack.settings.object_store_port),
            "allowed": ("tcp", CONTAINER_HOST_NAME, allowed),
        }


@pytest.fixture(scope="module", params=cases(REACHED, witnesses=["internet"]))
def mode(request: pytest.FixtureRequest) -> str:
    """A value of ``TRAINING_EGRESS``."""
    return str(request.param)


@pytest.fixture(scope="module")
def service(
    mode: str,
    stack: LocalStack,
    places: dict[str, tuple[str, str, int]],
    tmp_path_factory: pytest.TempPathFactory,
    engine_client: docker.APIClient,
) -> Iterator[ServiceProcess]:
    """A training service that closes what ``mode`` says."""
    folder = tmp_path_factory.mktemp(mode)
    _, gateway, metadata_port = places["metadata"]
    service = ServiceProcess(
        folder,
        TRAINING_EGRESS=mode,
        TRAINING_EGRESS_ALLOW=json.dumps([f"{CONTAINER_HOST_NAME}:{places['allowed'][2]}"]),
        TRAINING_METADATA_HOST=gateway,
        TRAINING_METADATA_PORT=str(metadata_port),
        TRAINING_CONTAINER_ENV=json.dumps(stack.settings.container_environment),
        TRAINING_STOP_GRACE_SECONDS="1",
    )
    service.start()
    try:
        yield service
        with service.client() as client:
            end_all_jobs(client)
        of_jobs = {"label": [f"{SERVICE}={service.service_id}", JOB_UID]}
        wait_until(
            lambda: (
                not engine_client.containers(all=True, filters=of_jobs)
                and not engine_client.networks(filters=of_jobs)
            ),
            "the service has removed what its jobs have left",
        )
    finally:
        service.kill()


@pytest.mark.proves("limits of what jobs reach", on="one machine")
def test_a_job_reaches_what_it_needs_and_what_the_setting_says(
    service: ServiceProcess,
    mode: str,
    places: dict[str, tuple[str, str, int]],
    pushed_image: ImageRef,
    job_id: str,
) -> None:
    with service.client() as training:
        submit(training, job_id, runs(pushed_image, TRY, json.dumps(places)), runs(pushed_image, PEER))
        until_state(training, job_id, JobState.SUCCEEDED)
        lines = messages(training, job_id)

    assert reached(lines) == REACHED[mode], lines
    assert "master-replica-0: SAID demo-project" in lines


#: Prints which ways to the address in its argument are open.
_TRY_NEIGHBOUR = """
import socket, sys
def tcp(address):
    socket.create_connection((address, 2222), 5).close()
def udp(address):
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.settimeout(2)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        probe.sendto(b"question", (address, 2222))
        probe.recv(100)
for name, ask, address in [("tcp", tcp, sys.argv[1]), ("udp", udp, sys.argv[1]), ("broadcast", udp, "255.255.255.255")]:
    try:
        ask(address)
        print("OPEN", name)
    except OSError as error:
        print("CLOSED", name)
"""
_NEIGHBOUR = """
import socketserver, threading
names = socketserver.UDPServer(("", 2222), type("Names", (socketserver.DatagramRequestHandler,), {
    "handle": lambda self: self.wfile.write(b"answer")}))
threading.Thread(target=names.serve_forever, daemon=True).start()
socketserver.TCPServer(("", 2222), socketserver.BaseRequestHandler).serve_forever()
"""


def test_jobs_of_one_replica_share_a_network_and_do_not_reach_each_other(
    service: ServiceProcess, pushed_image: ImageRef, job_id: str, engine_client: docker.APIClient
) -> None:
    asking = f"{job_id}_asks"
    with service.client() as training:
        submit_alone(training, job_id, runs(pushed_image, _NEIGHBOUR))
        until_state(training, job_id, JobState.RUNNING)
        (listening,) = engine_client.containers(filters={"label": f"container-training.job={job_id}"})
        ((network, joined),) = listening["NetworkSettings"]["Networks"].items()
        wait_until(
            lambda: _answers(engine_client, listening["Id"]), "the neighbour listens", ignoring=AssertionError
        )
        submit_alone(training, asking, runs(pushed_image, _TRY_NEIGHBOUR, joined["IPAddress"]))
        until_state(training, asking, JobState.SUCCEEDED)
        lines = messages(training, asking)

    assert network.startswith("ct-shared-")
    said = [line.removeprefix("master-replica-0: ") for line in lines if "OPEN" in line or "CLOSED" in line]
    assert said == ["CLOSED tcp", "CLOSED udp", "CLOSED broadcast"]


def _answers(engine: docker.APIClient, container: str) -> bool:
    """Whether the neighbour answers to itself, so that what is closed is so to others only."""
    program = _TRY_NEIGHBOUR.replace("sys.argv[1]", '"127.0.0.1"')
    made = engine.exec_create(container, ["python3", "-u", "-c", program])
    answer = engine.exec_start(made["Id"]).decode().splitlines()
    return "OPEN tcp" in answer and "OPEN udp" in answer


def test_what_is_closed_stays_so_when_the_service_is_killed(
    service: ServiceProcess,
    mode: str,
    places: dict[str, tuple[str, str, int]],
    pushed_image: ImageRef,
    job_id: str,
    engine_client: docker.APIClient,
) -> None:
    with service.client() as training:
        submit(training, job_id, runs(pushed_image, PEER), runs(pushed_image, PEER))
        until_state(training, job_id, JobState.RUNNING)
    service.kill()
    label = {"label": [f"container-training.job={job_id}", "container-training.role=master"]}
    (container,) = engine_client.containers(filters=label)
    # Without the service nobody answers as the metadata endpoint.
    command = ["python3", "-u", "-c", TRY, json.dumps(places)]
    lines = engine_client.exec_start(engine_client.exec_create(container["Id"], command)["Id"]).decode()
    service.start()

    assert reached(lines.splitlines()) == REACHED[mode] - {"metadata"}, lines
