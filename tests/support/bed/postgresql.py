"""
A PostgreSQL server on a unix socket.

The order of text in its databases is that of English, and not that of code points.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import psutil
import psycopg
import pytest

from local_stack.parts.database import as_server_user, make_cluster, server_program
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until

_USER = "airflow"
#: Nothing here outlives the test, and no power cut is waited for.
_SETTINGS = {"listen_addresses": "", "fsync": "off", "shared_buffers": "32MB", "max_connections": "200"}


class PostgresServer:
    """
    A server that tests kill and start again on the same data.

    :param folder: of its socket and its data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / ".s.PGSQL.5432"

    def start(self) -> None:
        """Start the server; returns when it answers."""
        settings = {**_SETTINGS, "unix_socket_directories": str(self.folder)}
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        program = [*as_server_user(), str(server_program("postgres")), "-D", str(self.folder / "data")]
        with (self.folder.parent / "server.log").open("ab") as log:
            self._process = subprocess.Popen([*program, *arguments], stdout=log, stderr=log, cwd=self.folder)
        wait_until(self._answers, f"PostgreSQL answers ({self.folder.parent / 'server.log'})")

    def stop(self) -> None:
        """End it at once, and its sessions with it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)  # "fast shutdown": it does not wait for clients to go
        self._process.wait(scaled(60))

    def kill(self) -> None:
        """SIGKILL all of its processes; returns when none has its memory any more."""
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        server.suspend()  # it makes no more of them
        others = server.children(recursive=True)
        for process in (server, *others):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        # A server does not start while one of these holds the shared memory of the one before.
        wait_until(lambda: all(map(_is_over, others)), "all processes of PostgreSQL end")

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def make_database(self, *, port: int | None = None) -> str:
        """
        Return the SQLAlchemy URL of a new, empty database, which sorts text as English does.

        :param port: of a proxy on loopback that leads to the server; default: its socket.
        """
        name = f"t{secrets.token_hex(6)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE "en-US"')
        if port:
            return f"postgresql+psycopg://{_USER}@127.0.0.1:{port}/{name}?sslmode=disable"
        return f"postgresql+psycopg://{_USER}@/{name}?{urlencode({'host': str(self.folder)})}"

    def execute(self, statement: str) -> None:
        """Execute a statement on the server's own database."""
        with self.connect() as connection:
            connection.execute(statement.encode())

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """Return a connection without transactions."""
        return psycopg.connect(host=str(self.folder), user=_USER, dbname=database, autocommit=True)


def _is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Run a server of its own until the block ends."""
    folder = current_run().make_folder("postgresql") / "server"
    make_cluster(folder)
    server = PostgresServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """The session's server; tests that use it carry the marker of its name."""
    with running_server() as server:
        yield server
