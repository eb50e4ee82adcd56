"""A stack on the first of several machines, by the commands that ``make`` runs there."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from local_stack.people.credentials import developers_header
from local_stack.settings import StackSettings
from tests.support import web
from tests.support.bed.machines import Node
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.fleet import OpsClient
from training_api.clients.network import Network
from training_api.clients.training import TrainingClient

PROJECT = "demo-project"
#: On each machine: what its agent keeps, and the engine's socket, which is elsewhere on each of these.
AGENT_FOLDER, SOCKET = "/run/agents", "/run/engine.sock"
_LOOPBACK = ("127.", "[::1]", "[::ffff:127.")


class FirstMachine:
    """The machine that serves the stack, by the commands that ``make`` runs."""

    def __init__(self, node: Node, state_dir: Path, base_image: str) -> None:
        self.node = node
        self._told = {
            "LOCAL_STACK_STATE_DIR": str(state_dir),
            "LOCAL_STACK_DOCKER_HOST": node.docker_host,
            "LOCAL_STACK_ADVERTISE_ADDRESS": node.address,
            "LOCAL_STACK_REQUIRE_AUTH": "true",
            "LOCAL_STACK_BASE_IMAGE": base_image,
            "LOCAL_STACK_INSTALL_PACKAGES": "false",
            "LOCAL_STACK_TRAINING_ENVIRONMENT": json.dumps(
                {
                    "TRAINING_STOP_GRACE_SECONDS": "1",
                    "TRAINING_MEMORY_LIMIT_BYTES": str(256 * 1024**2),
                    "TRAINING_AGENT_FOLDER": AGENT_FOLDER,
                    "TRAINING_AGENT_DOCKER_SOCKET": SOCKET,
                }
            ),
        }
        self.settings = StackSettings.model_validate(
            {
                name.removeprefix("LOCAL_STACK_").lower(): value
                for name, value in self._told.items()
                if name != "LOCAL_STACK_TRAINING_ENVIRONMENT"
            }
        )

    def start(self, command: str, **settings: str | None) -> subprocess.Popen[bytes]:
        """Start ``make COMMAND`` there, with other settings or without (``None``)."""
        others = {name: value for name, value in os.environ.items() if not name.startswith("LOCAL_STACK_")}
        log = self.node.folder / f"{command}.log"
        log.unlink(missing_ok=True)
        return self.node.run(
            command,
            *(sys.executable, "-m", "local_stack", command),
            environment={
                name: value for name, value in (others | self._told | settings).items() if value is not None
            },
        )

    def make(self, command: str, *, status: int = 0, **settings: str | None) -> str:
        """Run ``make COMMAND`` there; return what it prints."""
        ended = self.start(command, **settings).wait(scaled(240))
        printed = (self.node.folder / f"{command}.log").read_text("utf-8")
        assert ended == status, printed
        return printed

    def client(self) -> TrainingClient:
        """Return a client of the training service on another machine, with a token."""
        return TrainingClient(self.settings.gate_url, PROJECT, **self._login())

    def ops(self) -> OpsClient:
        """Return a client of what is known of jobs, there too."""
        return OpsClient(self.settings.gate_url, PROJECT, **self._login())

    def _login(self) -> dict[str, Any]:
        network = Network(verify=str(self.settings.authority_file))
        return {"headers": developers_header(self.settings), "network": network}

    def store(self, *arguments: str) -> str:
        """Ask the object store over the machine's loopback, as its users do."""
        log = self.node.folder / "store.log"
        log.unlink(missing_ok=True)
        url = f"{self.settings.object_store_url}{arguments[-1]}"
        asked = self.node.run("store", "curl", "--silent", "--fail", *arguments[:-1], url)
        assert asked.wait(scaled(60)) == 0, log.read_text()
        return log.read_text()

    def join_command(self) -> str:
        """Return what ``make join-command`` prints for the other machine."""
        printed = self.make("join-command")
        return printed[printed.index("sh <<'JOIN'") : printed.index("\nJOIN\n") + len("\nJOIN\n")]

    def ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        """Ask from a machine that is none of the swarm, on a connection of its own."""
        trusted = ssl.create_default_context(cafile=self.settings.authority_file)
        return web.request(method, url, verify=trusted, **options)

    def start_and_kill(self, moment: Callable[[], bool]) -> None:
        """Start the stack, and kill the command at a moment."""
        serving = self.start("serve")
        wait_until(moment, "the moment to kill it has come", poll_seconds=0.01)
        assert serving.poll() is None
        (command,) = Path(f"/proc/{serving.pid}/task/{serving.pid}/children").read_text().split()
        os.kill(int(command), signal.SIGKILL)
        serving.wait(scaled(30))

    def beyond_loopback(self, kind: str) -> set[str]:
        """Return where the first machine listens for others, over TCP (``t``) or UDP (``u``)."""
        # The kernel's own, for the overlay networks, has no process.
        kernels = {"0.0.0.0:4789", "*:4789", "[::]:4789"}
        return {
            each
            for each in self.listeners(kind) - kernels
            # The last is the agent's, for what comes from the machine's own containers.
            if not each.startswith(_LOOPBACK) and "%docker_gwbridge:" not in each
        }

    def listeners(self, kind: str) -> set[str]:
        """Return where the first machine listens at all, and the interface of what is bound to one."""
        log = self.node.folder / "ss.log"
        log.unlink(missing_ok=True)
        assert self.node.run("ss", "ss", f"-Hln{kind}").wait(scaled(30)) == 0
        return {line.split()[3] for line in log.read_text().splitlines()}

    def gate_pids(self) -> list[int]:
        """Return the processes of the stack's gate."""
        return _pids_with("cmdline", f"--folder={self.settings.machines_dir}")

    def service_pids(self) -> list[int]:
        """Return the processes of the stack's training service."""
        return _pids_with("environ", f"TRAINING_KEY_DIR={self.settings.key_dir}")


def _pids_with(file: str, entry: str) -> list[int]:
    """Return the processes that have ``entry`` in their ``cmdline`` or ``environ``."""
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        with suppress(OSError):  # it has ended
            if entry.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def run_there(node: Node, script: str) -> tuple[int, str]:
    """Paste ``script`` into a shell of another machine; return its status and what it prints."""
    log = node.folder / "join.log"
    log.unlink(missing_ok=True)
    environment = {"PATH": os.environ["PATH"], "DOCKER_HOST": node.docker_host}
    status = node.run("join", "sh", "-c", script, environment=environment).wait(scaled(180))
    return status, log.read_text("utf-8")
