"""The training service as a process that tests kill and restart on the same data and port."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from container_engines.labels import SERVICE
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.errors import TransportError

PROJECT = "demo-project"


class ServiceProcess:
    """
    ``python -m training_service serve`` with a database in ``folder``.

    :param settings: ``TRAINING_*`` variables; those of the developer do not count.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port = reserve_port()

    @property
    def endpoint(self) -> str:
        """URL of the API."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> TrainingClient:
        """Return a new client; the caller closes it."""
        return TrainingClient(self.endpoint, PROJECT)

    def start(self) -> None:
        """Start the program and wait until it answers."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINING_")}
        database = {"TRAINING_DATABASE_URL": f"sqlite:///{self._folder / 'service.db'}"}
        with (self._folder / "service.log").open("ab") as log:
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "training_service", "serve", "--port", str(self.port)],
                env=environment | database | self._settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        with self.client() as client:
            log = self._folder / "service.log"
            wait_until(lambda: process.poll() is not None or _answers(client), f"the service answers ({log})")
        assert process.poll() is None, log.read_text("utf-8")[-2000:]
        current_run().own_label(SERVICE, service_id_of(self._folder / "service.db"))

    def kill(self) -> None:
        """End it with SIGKILL; does nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def service_id_of(database: Path) -> str:
    """Return by what a training service that has started recognises what it made on the engine."""
    with closing(sqlite3.connect(database)) as connection:
        (service_id,) = connection.execute("SELECT value FROM meta WHERE key = 'service_id'").fetchone()
    return str(service_id)


def _answers(client: TrainingClient) -> bool:
    try:
        client.get_config()
    except TransportError:
        return False
    return True
