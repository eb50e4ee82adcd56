"""The training service as a process that tests kill and restart on the same data and port."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from container_engines.labels import SERVICE
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.errors import TransportError

PROJECT = "demo-project"
_SUPERVISE_SECONDS = 0.2


class ServiceProcess:
    """
    ``python -m training_service serve``, with its log in ``folder``.

    :param database_url: default: SQLite in ``folder``.
    :param settings: ``TRAINING_*`` variables; those of the developer do not count.
    """

    def __init__(self, folder: Path, database_url: str = "", **settings: str) -> None:
        self._log = folder / "service.log"
        self._database_url = database_url or f"sqlite:///{folder / 'service.db'}"
        self._settings = settings
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = reserve_port()

    @property
    def endpoint(self) -> str:
        """URL of the API."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> TrainingClient:
        """Return a new client; the caller closes it."""
        return TrainingClient(self.endpoint, PROJECT)

    @property
    def service_id(self) -> str:
        """By what a service that has started recognises what it made on the engine."""
        return service_id_of(self._database_url)

    def start(self) -> None:
        """Start the program and wait until it answers."""
        process = self.launch()
        with self.client() as client:
            wait_until(
                lambda: process.poll() is not None or _answers(client), f"the service answers ({self._log})"
            )
        assert process.poll() is None, self._log.read_text("utf-8")[-2000:]
        current_run().own_label(SERVICE, self.service_id)

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Start the program again whenever it has ended, as supervisord does, until the block ends."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(_SUPERVISE_SECONDS):
                with self._lock:
                    ended = self._process is not None and self._process.poll() is not None
                if ended:
                    self.launch()

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the program; returns at once."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINING_")}
        database = {"TRAINING_DATABASE_URL": self._database_url}
        with self._lock, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "training_service", "serve", "--port", str(self.port)],
                env=environment | database | self._settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            return self._process

    def stop(self, signal_number: int, seconds: float) -> None:
        """
        End it with a signal.

        :raises subprocess.TimeoutExpired: it still runs after ``seconds``.
        """
        process = self._process  # supervised() may put another one in its place
        assert process is not None
        process.send_signal(signal_number)
        process.wait(seconds)

    def kill(self) -> None:
        """End it with SIGKILL; does nothing if it does not run."""
        if (process := self._process) is not None:
            process.kill()
            process.wait()


def service_id_of(database_url: str) -> str:
    """Return by what a training service that has started recognises what it made on the engine."""
    engine = sa.create_engine(database_url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return str(connection.scalar(sa.text("SELECT value FROM meta WHERE key = 'service_id'")))


def _answers(client: TrainingClient) -> bool:
    try:
        client.get_config()
    except TransportError:
        return False
    return True
