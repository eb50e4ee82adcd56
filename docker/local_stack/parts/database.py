"""Airflow's database: PostgreSQL on a unix socket if it can be installed, else SQLite."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import psycopg

from local_stack.errors import LocalStackError, PackagesMissing, PartFailed
from local_stack.parts.part import StackPart
from local_stack.processes.packages import PackageInstaller, find_program
from local_stack.processes.supervisor_config import PRIVATE_UMASK, Program
from local_stack.settings import AirflowDatabase, Part, StackSettings

PACKAGE = "postgresql"
INIT_TIMEOUT_SECONDS = 120
_NAME = "airflow"
_SYSTEM_USER = "postgres"
#: Debian keeps the programs of each version in a folder that is not on PATH.
_VERSIONS = Path("/usr/lib/postgresql")
#: Of Debian's postgresql-common(7): whether an installation makes a server of the machine's own, which starts
#: at boot.
_CLUSTER_CONFIG = Path("/etc/postgresql-common/createcluster.conf")
#: A commit returns before it is on disk: a power cut may lose the last half second of Airflow's states, and
#: never more.
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",  # of the API server alone up to 80
    "shared_buffers": "32MB",
    "synchronous_commit": "off",
    "unix_socket_permissions": "0700",
}


class Database(StackPart):
    """A PostgreSQL server on a unix socket. Where Airflow uses SQLite, this part has no program."""

    name = Part.DATABASE

    def address(self) -> str:
        """Return where Airflow finds its database."""
        return airflow_database_url(self.settings)

    def is_healthy(self) -> bool:
        """Tell whether the server takes connections; SQLite always does."""
        folder = _folder_in_use(self.settings)
        return folder is None or _answers(folder)

    def prepare(self) -> None:
        """
        Choose the database, install PostgreSQL if need be, and make its folder.

        :raises LocalStackError: the folder that the settings name exists.
        :raises PartFailed: ``initdb`` failed.
        :raises PackagesMissing: the settings want PostgreSQL, and it cannot be had here.
        """
        if _folder_in_use(self.settings) is not None or not self._is_wanted():
            return
        folder = self.settings.database_dir
        if folder is None:
            folder = _default_folder(self.settings)
            # Ours by its name: of a state folder that was removed, or of an attempt that was cut off.
            shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise LocalStackError(
                f"LOCAL_STACK_DATABASE_DIR must name a folder that does not exist, got {str(folder)!r};"
                " remove it if nothing in it is needed, or name another one"
            )
        with self.progress.step(f"making a PostgreSQL database in {folder}"):
            make_cluster(folder)
        marker = _marker(self.settings)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(str(folder), encoding="utf-8")

    def programs(self) -> Sequence[Program]:
        """Return the server, unless Airflow uses SQLite."""
        folder = _folder_in_use(self.settings)
        if folder is None:
            return ()
        settings = {**_SETTINGS, "unix_socket_directories": str(folder)}
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        server = (str(server_program("postgres")), "-D", str(folder / "data"), *arguments)
        return [
            Program(
                name=self.name.value,
                command=(*as_server_user(), *server),
                directory=folder,
                stop_signal="INT",  # "fast shutdown": it does not wait for clients to go
            )
        ]

    def complete(self) -> None:
        """Make Airflow's database, unless it exists."""
        folder = _folder_in_use(self.settings)
        if folder is None:
            return
        with psycopg.connect(host=str(folder), user=_NAME, dbname="postgres", autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_NAME,)).fetchone()
            if known is None:
                connection.execute(f'CREATE DATABASE "{_NAME}"')

    def _is_wanted(self) -> bool:
        match self.settings.airflow_database:
            case AirflowDatabase.SQLITE:
                return False
            case AirflowDatabase.POSTGRESQL:
                ensure_server_programs(self.packages)
                return True
        if sqlite_file(self.settings).exists():
            return False  # an earlier version's, with the runs that were made in it
        try:
            ensure_server_programs(self.packages)
        except PackagesMissing as error:
            self.progress.say(
                f"{error}; Airflow uses SQLite instead, which is enough for a few tasks at once"
            )
            return False
        return True


def airflow_database_url(settings: StackSettings) -> str:
    """
    Return the SQLAlchemy URL of the database of this stack's Airflow.

    If Airflow does not run, it is the one with which it would start now.
    """
    folder = _folder_in_use(settings)
    if folder is None:
        return f"sqlite:///{sqlite_file(settings)}"
    return f"postgresql+psycopg://{_NAME}@/{_NAME}?{urlencode({'host': str(folder)})}"


def database_identity(settings: StackSettings) -> str:
    """Return a text that changes when Airflow's database is replaced, also at the same place."""
    folder = _folder_in_use(settings)
    place = sqlite_file(settings) if folder is None else folder / "data"
    return f"{place} {place.stat().st_ino if place.exists() else 'missing'}"


def sqlite_file(settings: StackSettings) -> Path:
    """Return where Airflow's SQLite lies, if it has one."""
    return settings.state_dir.absolute() / "airflow" / "airflow.db"


def _marker(settings: StackSettings) -> Path:
    """Return the file that names PostgreSQL's folder; written when that is complete."""
    return settings.state_dir.absolute() / "airflow" / "postgresql-folder"


def _folder_in_use(settings: StackSettings) -> Path | None:
    """Return PostgreSQL's folder; ``None``: Airflow uses SQLite, or nothing yet."""
    marker = _marker(settings)
    if settings.airflow_database is AirflowDatabase.SQLITE or not marker.is_file():
        return None
    folder = Path(marker.read_text("utf-8"))
    return folder if (folder / "data").is_dir() else None


def _default_folder(settings: StackSettings) -> Path:
    """
    Return a folder that the server's user can reach.

    PostgreSQL refuses to run as root; the system user that runs it instead cannot enter a checkout below
    ``/root``.
    """
    if os.geteuid() != 0:
        return settings.state_dir.absolute() / "postgresql"
    digest = hashlib.sha256(bytes(settings.state_dir.absolute())).hexdigest()[:12]
    return Path("/var/lib/container-training") / digest


def as_server_user() -> tuple[str, ...]:
    """Return what a command begins with so that PostgreSQL agrees to run."""
    if os.geteuid() != 0:
        return ()
    setpriv = find_program("setpriv")
    if setpriv is None:
        raise LocalStackError("PostgreSQL does not run as root, and setpriv is missing; install util-linux")
    return (str(setpriv), f"--reuid={_SYSTEM_USER}", f"--regid={_SYSTEM_USER}", "--init-groups", "--")


def make_cluster(folder: Path) -> None:
    """
    Make ``folder``, and in its ``data`` the files of a server whose superuser is ``airflow``.

    :raises PartFailed: ``initdb`` failed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        user = pwd.getpwnam(_SYSTEM_USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
    command = [
        *(*as_server_user(), str(server_program("initdb")), "--pgdata", str(folder / "data")),
        *("--username", _NAME, "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions"),
        # Only the owner of the folder, and root, get as far as its socket.
        *("--auth-local", "trust", "--auth-host", "reject"),
    ]
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INIT_TIMEOUT_SECONDS,
        umask=PRIVATE_UMASK,
    )
    if done.returncode != 0:
        shutil.rmtree(folder)
        raise PartFailed("initdb", f"failed: {(done.stderr or done.stdout).strip()[-2000:]}")


def _answers(folder: Path) -> bool:
    try:
        psycopg.connect(host=str(folder), user=_NAME, dbname="postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def server_program(name: str) -> Path | None:
    """Return a program of the newest installed PostgreSQL server; ``None`` if there is none."""
    folders = [folder for folder in _VERSIONS.glob("*/bin") if folder.parent.name.isdecimal()]
    for folder in sorted(folders, key=lambda folder: int(folder.parent.name), reverse=True):
        if (folder / name).is_file():
            return folder / name
    return find_program(name)


def ensure_server_programs(packages: PackageInstaller) -> Path:
    """
    Return the folder of PostgreSQL's server programs, installed if need be.

    :raises PackagesMissing: they cannot be installed here.
    """
    if (found := server_program("postgres")) is None:
        with _no_cluster_of_the_machine():
            packages.install([PACKAGE], start_services=False)
        found = server_program("postgres")
    if found is None:
        raise PackagesMissing(
            f"the package {PACKAGE} has brought no program postgres; install PostgreSQL 13 or newer"
        )
    return found.parent


@contextmanager
def _no_cluster_of_the_machine() -> Iterator[None]:
    """Install the programs without the server that Debian's package would start at each boot."""
    if _CLUSTER_CONFIG.exists() or os.geteuid() != 0:  # the machine has its own policy
        yield
        return
    _CLUSTER_CONFIG.parent.mkdir(parents=True, exist_ok=True)
    _CLUSTER_CONFIG.write_text("create_main_cluster = false\n", encoding="ascii")
    try:
        yield
    finally:
        _CLUSTER_CONFIG.unlink(missing_ok=True)
