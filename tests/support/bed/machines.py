"""
Machines on one machine, such as a Swarm's: each is an engine in separate namespaces.

Nothing is changed in the machine's own network namespace but one leg of a veth pair: the switch between the
nodes stands in a namespace of its own, where neither the host's firewall nor its engine's rules apply. A node
is all that hangs below the first process of its PID namespace, so that killing that one process is what
pulling the plug of a machine is. Nodes end with the process that made them, however that ends; what is left
of files and interfaces is removed by the next one.

Needs root, iproute2, util-linux, and the Docker Engine's own programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import docker

from tests.support.run_id import exclusive
from tests.support.speed import scaled
from tests.support.waiting import wait_until

_PREFIX = "ctsw"
START_SECONDS = 120.0
_RUN_NETNS = Path("/run/netns")
_CGROUPS = Path("/sys/fs/cgroup")
_FOLDERS = Path("/var/tmp")
_PROGRAMS = ("ip", "mount", "nsenter", "unshare", "setpriv", "dockerd", "docker-init")


class Switch:
    """The wire between nodes: a bridge in a namespace of its own, with one leg in the machine's."""

    def __init__(self, name: str, network: str) -> None:
        self.name = name
        self.network = network
        self.namespace = f"{name}-sw"
        self.host_address = f"{network}.1"

    def up(self) -> None:
        """Make the bridge and the host's leg."""
        _ip("netns", "add", self.namespace)
        _ip("-n", self.namespace, "link", "set", "lo", "up")
        _ip("-n", self.namespace, "link", "add", "br0", "type", "bridge")
        _ip("-n", self.namespace, "link", "set", "br0", "up")
        _ip("link", "add", f"{self.name}-h", "type", "veth", "peer", "name", "host", "netns", self.namespace)
        _ip("-n", self.namespace, "link", "set", "host", "master", "br0", "up")
        _ip("addr", "add", f"{self.host_address}/24", "dev", f"{self.name}-h")
        _ip("link", "set", f"{self.name}-h", "up")

    def plug(self, index: int, namespace: str, address: str) -> None:
        """Make the namespace of a node, with an ``eth0`` that hangs on the bridge."""
        port = f"n{index}"
        _ip("netns", "add", namespace)
        _ip(
            "-n",
            self.namespace,
            "link",
            "add",
            port,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            namespace,
        )
        _ip("-n", self.namespace, "link", "set", port, "master", "br0", "up")
        _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        _ip("-n", namespace, "route", "add", "default", "via", self.host_address)


class Node:
    """One machine."""

    def __init__(self, index: int, switch: Switch, folder: Path, configuration: dict[str, object]) -> None:
        self.index = index
        self.name = f"node{index}"
        self.address = f"{switch.network}.{10 + index}"
        self.folder = folder / f"n{index}"
        self.docker_host = f"unix://{self.folder / 'docker.sock'}"
        #: More arguments of ``dockerd``, from the next start on.
        self.engine_arguments: Sequence[str] = ()
        self.engine_program = "dockerd"
        self.namespace = _RUN_NETNS / f"{switch.name}-{index}"
        self._configuration = configuration
        self._holder: subprocess.Popen[bytes] | None = None
        self._daemon: subprocess.Popen[bytes] | None = None
        self._programs: list[subprocess.Popen[bytes]] = []
        self.folder.mkdir(parents=True)
        switch.plug(index, self.namespace.name, self.address)

    def plug_into(self, network: str, engine: docker.APIClient) -> None:
        """
        Give the machine a way to the outside: an ``eth1`` in a network of this machine's engine.

        :param network: its id; no container is in it.
        """
        (plan,) = engine.inspect_network(network)["IPAM"]["Config"]
        address = f"{plan['Subnet'].rpartition('.')[0]}.{200 + self.index}"
        port, inside = f"{self.namespace.name}o", self.namespace.name
        _ip("link", "add", port, "type", "veth", "peer", "name", "eth1", "netns", inside)
        _ip("link", "set", port, "master", f"br-{network[:12]}", "up")
        _ip("-n", inside, "addr", "add", f"{address}/24", "dev", "eth1")
        _ip("-n", inside, "link", "set", "eth1", "up")
        _ip("-n", inside, "route", "replace", "default", "via", plan["Gateway"])

    def start(self) -> None:
        """Switch the machine on; returns when its engine answers."""
        self._hold()
        self.start_engine()

    def power_off(self) -> None:
        """Pull the plug: every process of the machine ends at once."""
        if self._holder is None:
            return
        self._holder.kill()  # the first process of its PID namespace ends with it, and takes all others along
        self._holder.wait()
        for process in self._programs:
            process.wait()
        self._holder = self._daemon = None
        self._programs.clear()

    def kill_engine(self) -> None:
        """
        SIGKILL the engine alone: what its containers run goes on until the next one starts.

        The engine forgets its networks: 20.10 panics at each start (``reservePools``) when it was killed
        while it made one, until somebody removes this file.
        """
        assert self._daemon is not None
        (engine,) = _children(self._daemon.pid)  # of nsenter, which ends with it
        os.kill(engine, signal.SIGKILL)
        self._daemon.wait()
        (self.folder / "data" / "network" / "files" / "local-kv.db").unlink()

    def copy_image(self, name: str, engine: docker.APIClient) -> None:
        """Load an image that another engine has."""
        client = self.client()
        client.load_image(engine.get_image(name))
        client.close()

    def client(self) -> docker.APIClient:
        """Return a new client of the machine's engine."""
        return docker.APIClient(base_url=self.docker_host, version="auto", timeout=scaled(60))

    def _hold(self) -> None:
        """Make the machine's namespaces, held by an init process."""
        # Not "ip netns exec": that hides /sys/fs/cgroup from the engine.
        boot = (
            f"hostname {self.name} && mount -t tmpfs tmpfs /run && mkdir -p /run/lock /etc/docker"
            # Its engine's id, and the registries that it trusts, are its own.
            " && mount -t tmpfs tmpfs /etc/docker"
            " && exec docker-init -s -- sleep infinity"
        )
        # setpriv: the kernel kills the node when the tests' process ends, also by SIGKILL.
        self._holder = self._spawn(
            "hold", "setpriv", "--pdeathsig", "KILL",
            "nsenter", f"--net={self.namespace}",
            "unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child",
            "--propagation", "private", "--mount-proc", "bash", "-c", boot,
        )  # fmt: skip
        wait_until(lambda: self._init_name() == "docker-init", f"{self.name} has an init process")

    def start_engine(self) -> None:
        """Start the engine of a machine that is on; returns when it answers."""
        (self.folder / "daemon.json").write_text(json.dumps(self._configuration))
        # What a machine forgets when it is switched off is below /run: an old pid there is another process's.
        self._daemon = self.run(
            "engine", self.engine_program, "--config-file", str(self.folder / "daemon.json"),
            "--data-root", str(self.folder / "data"),
            "--exec-root", "/run/docker", "--pidfile", "/run/docker.pid",
            "-H", self.docker_host, "--cgroup-parent", f"/{self.namespace.name}", *self.engine_arguments,
        )  # fmt: skip
        log = self.folder / "engine.log"
        wait_until(self._answers, f"the engine of {self.name} answers ({log})", seconds=START_SECONDS)

    def run(
        self, log: str, *command: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """
        Start a program on a machine that is on, which ends it when it is switched off.

        :param log: name of the file, without its ending, that gets what it prints.
        :param environment: default: this process's.
        """
        enter = ("nsenter", "-t", str(self._init_pid()), "--mount", "--uts", "--ipc", "--net", "--pid")
        process = self._spawn(log, *enter, *command, environment=environment)
        self._programs.append(process)
        return process

    def _spawn(
        self, log: str, *command: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as file:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment
            )

    def _answers(self) -> bool:
        # Without docker-py, which leaves the socket open that did not get an answer.
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.settimeout(scaled(10))
            probe.connect(str(self.folder / "docker.sock"))
            probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in probe.makefile("rb").readline()
        return False

    def _init_pid(self) -> int:
        assert self._holder is not None
        return next(iter(_children(self._holder.pid)), 0)

    def _init_name(self) -> str:
        pid = self._init_pid()
        return Path(f"/proc/{pid}/comm").read_text().strip() if pid else ""


class Machines:
    """
    Machines on one switch.

    :param registry_ports: where on the switch's host address the nodes may find registries without TLS.
    :param kind: tells the machines of one process apart; a letter.
    :param engine_program: ``dockerd``, or the path of another one.
    :param configuration: more of their ``daemon.json``.
    """

    def __init__(
        self,
        nodes: int,
        registry_ports: Sequence[int] = (),
        kind: str = "",
        *,
        engine_program: str = "dockerd",
        configuration: Mapping[str, object] | None = None,
    ) -> None:
        check_can_make_nodes()
        self.name = f"{_PREFIX}{os.getpid()}{kind}"
        self.folder = _FOLDERS / self.name
        with exclusive("swarm"):
            _remove_all_leftovers()
            # Within the block: between the two, a folder would be taken for one that is left over.
            self.folder.mkdir()
            self._lock = _lock(self.folder)
        # In memory, as nodes have many thousand files that go together; a disk takes half a minute to forget
        # them.
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        _run("mount", "-t", "tmpfs", "-o", "size=8g,mode=0700", "tmpfs", str(self.disk))
        self._registry_ports = registry_ports
        self._engine_program = engine_program
        self._configuration = {"storage-driver": "overlay2", **(configuration or {})}
        self.count = nodes
        self.switch: Switch
        self.nodes: list[Node] = []

    def up(self) -> None:
        """Start all nodes."""
        with exclusive("swarm"):
            # A network is taken when the switch's leg is in it.
            self.switch = Switch(self.name, _free_network())
            self.switch.up()
        configuration: dict[str, object] = {
            **self._configuration,
            "insecure-registries": [self.registry(port) for port in self._registry_ports],
            "dns-opts": ["timeout:1", "attempts:1"],
        }
        for index in range(1, self.count + 1):
            self.nodes.append(Node(index, self.switch, self.disk, configuration))
        for node in self.nodes:
            node.engine_program = self._engine_program
            node.start()

    def down(self) -> None:
        """End all nodes and remove all that was made for them; may be repeated."""
        for node in self.nodes:
            node.power_off()
        with exclusive("swarm"):
            _remove(self.name)
        if self._lock is not None:
            os.close(self._lock)

    def registry(self, port: int) -> str:
        """Return the ``HOST:PORT`` of a registry, as every machine reaches it."""
        return f"{self.switch.host_address}:{port}"


def check_can_make_nodes() -> None:
    """:raises RuntimeError: this process cannot make nodes; the message says what is missing."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if os.geteuid() != 0:
        missing.insert(0, "root")
    if missing:
        raise RuntimeError(
            f"the nodes of a swarm need {', '.join(missing)}: run the tests as root on Debian or Ubuntu with the packages "
            "iproute2, util-linux and docker.io"
        )


def remove_leftovers() -> None:
    """Remove what is left of runs whose process is gone."""
    with exclusive("swarm"):
        _remove_all_leftovers()


def _remove_all_leftovers() -> None:
    for folder in sorted(_FOLDERS.glob(f"{_PREFIX}*")):
        lock = _lock(folder)
        if lock is not None:
            _remove(folder.name)
            os.close(lock)


def _children(pid: int) -> list[int]:
    """Return the processes that process ``pid`` has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _lock(folder: Path) -> int | None:
    """Take the folder's lock, which a run holds while its process lives; ``None``: it lives."""
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _remove(name: str) -> None:
    """Remove interfaces, namespaces, control groups and files of a run that has ended."""
    if Path(f"/sys/class/net/{name}-h").exists():
        _ip("link", "del", f"{name}-h")
    for namespace in sorted(_RUN_NETNS.glob(f"{name}-*")):
        _ip("netns", "del", namespace.name)
    wait_until(lambda: _remove_groups(name), f"the control groups of {name} are removed")
    disk = _FOLDERS / name / "disk"
    # The kernel gives back the mounts of the machines' namespaces a while after their last process.
    wait_until(lambda: _unmount(disk), f"{disk} is unmounted")
    shutil.rmtree(_FOLDERS / name)


def _unmount(disk: Path) -> bool:
    """Unmount a disk, unless it is still in use; whether it is gone."""
    if disk.is_mount():
        subprocess.run(["umount", str(disk)], capture_output=True, timeout=scaled(60))
    return not disk.is_mount()


def _remove_groups(name: str) -> bool:
    """Remove the run's control groups, innermost first; whether all are gone."""
    groups = [*_CGROUPS.glob(f"{name}-*"), *_CGROUPS.glob(f"*/{name}-*")]  # version 2, and version 1
    for group in groups:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # the kernel still counts a process that has just ended
                Path(folder).rmdir()
    return not any(group.exists() for group in groups)


def _free_network() -> str:
    """Return the first three numbers of a network that no interface of this machine is in."""
    used = _ip("-o", "-4", "addr")
    return next(network for third in range(77, 250) if f" {(network := f'10.77.{third}')}." not in used)


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=scaled(60))
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
