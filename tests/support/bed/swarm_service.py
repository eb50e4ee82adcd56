"""A training service over a swarm, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from local_stack.parts.part import answers_ok
from tests.support.bed.swarm import Swarm
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef


class Service:
    """
    The service; it ends with the tests' process.

    :param host: what it listens on.
    :param variables: more of its environment.
    """

    def __init__(
        self,
        folder: Path,
        manager: str,
        host: str = "127.0.0.1",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.port = reserve_port()
        self.url = f"http://{host}:{self.port}"
        self.database = folder / "jobs.db"
        self._log = folder / "service.log"
        self.environment = {
            **os.environ,
            "TRAINING_ENGINE": "swarm",
            "TRAINING_DOCKER_HOST": manager,
            "TRAINING_HOST": host,
            "TRAINING_PORT": str(self.port),
            "TRAINING_DATABASE_URL": f"sqlite:///{self.database}",
            "TRAINING_STOP_GRACE_SECONDS": "1",
            "TRAINING_MEMORY_LIMIT_BYTES": str(256 * 1024**2),
            **(variables or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns when it answers."""
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "training_service", "serve"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        wait_until(lambda: answers_ok(f"{self.url}/health"), f"the service answers ({self._log})")

    def end(self, how: signal.Signals) -> None:
        """Send it a signal, and wait for its end."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(timeout=scaled(60))

    @property
    def pid(self) -> int:
        """The process, which is up."""
        assert self._process is not None
        return self._process.pid


@contextmanager
def service_with_agents(
    swarm: Swarm, agent_image: ImageRef, folder: Path, variables: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """
    Yield a service whose agents run on all machines; the agents go with it.

    :param folder: for its database and its log.
    :param variables: more of its environment.
    """
    service = Service(folder, swarm.manager.docker_host, swarm.switch.host_address, variables)
    agents = swarm.disk / f"agents-{service.port}"
    agents.mkdir()
    for node in swarm.nodes:
        (agents / f"{node.name}.sock").symlink_to(node.docker_host.removeprefix("unix://"))
    service.environment |= {
        "TRAINING_AGENT_IMAGE": agent_image.pullable,
        "TRAINING_AGENT_URL": service.url,
        "TRAINING_AGENT_FOLDER": str(agents),
        # Each machine's engine has its socket elsewhere.
        "TRAINING_AGENT_DOCKER_SOCKET": str(agents / "{{.Node.Hostname}}.sock"),
    }
    service.start()
    try:
        yield service
    finally:
        try:
            service.end(signal.SIGTERM)
        finally:
            with closing(swarm.manager.client()) as client:
                for item in client.services():
                    if item["Spec"]["Name"].startswith("ct-agent-"):
                        client.remove_service(item["ID"])
