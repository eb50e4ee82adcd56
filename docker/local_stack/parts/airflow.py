"""Airflow's four components, started one by one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

from local_stack.errors import PartFailed
from local_stack.parts.base_image import BaseImage
from local_stack.parts.database import airflow_database_url, database_identity
from local_stack.parts.part import PROBE_TIMEOUT_SECONDS, Listener, StackPart
from local_stack.people.airflow_users import ORPHAN_FINDER, USERS, ensure_password
from local_stack.people.credentials import (
    REGISTRY_USER,
    airflow_token,
    ensure_credentials,
    google_key,
)
from local_stack.processes.supervisor_config import PRIVATE_UMASK, Program
from local_stack.settings import LOOPBACK, REPOSITORY_ROOT, STORAGE_CLIENTS, Backend, Part, StackSettings

MIGRATE_TIMEOUT_SECONDS = 300
SCHEDULER_PATIENCE_SECONDS = 60
_DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
#: Connections of a process beside its pool of five. A request of the API server keeps its connection while
#: it waits for one of 40 threads (anyio's default). With Airflow's default, 15 connections, all threads can
#: wait for one of them: then the server answers nothing for 30 s, and some requests with 500.
MAX_OVERFLOW = 75
COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")


class Airflow(StackPart):
    """
    api-server, scheduler, dag-processor and triggerer.

    Not ``airflow standalone``: it does not notice an api-server that cannot listen, leaves its children
    behind when it is terminated, and opens log servers on all interfaces.
    """

    name = Part.AIRFLOW
    health_timeout_seconds = 180.0

    def address(self) -> str:
        """Return the URL of the UI and the API."""
        return self.settings.airflow_url

    def program_names(self) -> Sequence[str]:
        """Return the four programs."""
        return [f"airflow-{name}" for name in ("api-server", "scheduler", "dag-processor", "triggerer")]

    def is_healthy(self) -> bool:
        """Tell whether the API answers and all four components say that they are healthy."""
        try:
            answer = httpx.get(
                f"{self.settings.airflow_url}/api/v2/monitor/health",
                timeout=PROBE_TIMEOUT_SECONDS,
                trust_env=False,
            )
            parts = answer.raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return False
        return all(parts.get(name, {}).get("status") == "healthy" for name in COMPONENTS)

    def listeners(self) -> Sequence[Listener]:
        """Return the address of the api-server."""
        return [Listener(host=LOOPBACK, port=self.settings.airflow_port, setting="LOCAL_STACK_AIRFLOW_PORT")]

    def prepare(self) -> None:
        """
        Migrate the database to the installed Airflow, and make the files of the secrets.

        :raises PartFailed: ``airflow db migrate`` failed.
        """
        state = airflow_state(self.settings)
        stamp = state / "migrated"
        if stamp.exists() and stamp.read_text("utf-8") == self._migrated():
            return
        state.mkdir(parents=True, exist_ok=True)
        self.settings.log_dir.mkdir(parents=True, exist_ok=True)
        log = self.settings.log_dir / "airflow-migrate.log"
        with self.progress.step("making Airflow's database"), log.open("wb") as output:
            try:
                subprocess.run(
                    [*_AIRFLOW, "db", "migrate"],
                    check=True,
                    env=os.environ | airflow_environment(self.settings, base_image=""),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=MIGRATE_TIMEOUT_SECONDS,
                    umask=PRIVATE_UMASK,  # of the database, and of the passwords of the UI
                )
            except subprocess.SubprocessError as error:
                tail = self.processes.log_tail("airflow-migrate")
                raise PartFailed("airflow db migrate", "failed", log, tail) from error
        stamp.write_text(self._migrated(), encoding="utf-8")

    def _migrated(self) -> str:
        return f"{version('apache-airflow-core')} {database_identity(self.settings)}"

    def programs(self) -> Sequence[Program]:
        """
        Return the four components.

        The log servers, which would listen on all interfaces, are left out.
        """
        ensure_credentials(self.settings)
        # Of all users: Airflow prints those that it makes up into its log.
        passwords = {user: ensure_password(passwords_file(self.settings), user) for user in USERS}
        environment = airflow_environment(
            self.settings,
            base_image=BaseImage.name_of(self.settings),
            token=airflow_token(self.settings),
            finder_password=passwords[ORPHAN_FINDER],
            google_key=google_key(self.settings),
        )
        authority = _digest_of(self.settings.certificates_dir / "authority.pem")
        port = str(self.settings.airflow_port)
        commands = (
            ("api-server", "--host", LOOPBACK, "--port", port),
            ("scheduler", "--skip-serve-logs"),
            ("dag-processor",),
            ("triggerer", "--skip-serve-logs"),
        )
        return [
            Program(
                name=name,
                command=(*_AIRFLOW, *command),
                environment={
                    **environment,
                    **own_environment(name, self.settings),
                    # gRPC reads the authorities once a process: with another one it is started again.
                    "LOCAL_STACK_AUTHORITY_SHA256": authority,
                },
                directory=REPOSITORY_ROOT,
                stop_wait_seconds=20,
            )
            for name, command in zip(self.program_names(), commands, strict=True)
        ]


def own_environment(program: str, settings: StackSettings) -> Mapping[str, str]:
    """
    Return what only ``program`` gets.

    SQLite lets one process write at a time. A scheduler that does not get the lock within 5 s, its default,
    crashes, but its process stays for as long as there are tasks. The api-server keeps the default: while one
    request waits, all others wait, including the one that holds the lock. With 15 s it did not answer for
    minutes in the kill table.
    """
    url = airflow_database_url(settings)
    if program != "airflow-scheduler" or not url.startswith("sqlite:"):
        return {}
    return {_DATABASE: f"{url}?timeout={SCHEDULER_PATIENCE_SECONDS}"}


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _database(settings: StackSettings) -> Mapping[str, str]:
    """Return the variables that name Airflow's database; empty if the settings name another one."""
    url = airflow_database_url(settings)
    if _DATABASE in settings.airflow_environment:
        return {}
    if url.startswith("sqlite:"):
        return {_DATABASE: url}
    return {
        _DATABASE: url,
        # Without this variable Airflow's asynchronous engine would want asyncpg.
        f"{_DATABASE}_ASYNC": url,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW": str(MAX_OVERFLOW),
    }


_AIRFLOW = (sys.executable, "-m", "airflow")


def airflow_state(settings: StackSettings) -> Path:
    """
    Return the folder of Airflow's database, logs and passwords.

    airflow.cfg names the folder of the default stack.
    """
    return settings.state_dir.absolute() / "airflow"


def passwords_file(settings: StackSettings) -> Path:
    """Return the file in which the simple auth manager keeps the passwords that it made up."""
    return airflow_state(settings) / "simple_auth_manager_passwords.json.generated"


def airflow_environment(
    settings: StackSettings,
    *,
    base_image: str,
    token: str = "",
    finder_password: str = "",
    google_key: str = "",
) -> Mapping[str, str]:
    """
    Return the environment of Airflow's processes: its home, and the connections to the stack.

    Pure. Connections by environment are read by every component, and nothing has to be stored or encrypted.

    :param token: Airflow's own, with which it is let into the registry and the training service.
    :param finder_password: of the user who may read, but not change, what Airflow does.
    :param google_key: the content of its key file, with which Google's operators are let in.
    """
    connections = airflow_connections(
        settings,
        base_image=base_image,
        token=token,
        finder_password=finder_password,
        google_key=google_key,
    )
    state = airflow_state(settings)
    return {
        "AIRFLOW_HOME": str(REPOSITORY_ROOT),
        # The tests set it for themselves. In that mode Airflow does not read airflow.cfg, and its scheduler
        # does not pause between iterations.
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        # As in airflow.cfg, for whatever state folder and database this stack has.
        **_database(settings),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(state / "logs"),
        "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(state / "logs" / "dag_processor"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords_file(settings)),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
            f"{user}:{role}" for user, role in USERS.items()
        ),
        "AIRFLOW__API__PORT": str(settings.airflow_port),
        "AIRFLOW__API__BASE_URL": settings.airflow_url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{settings.airflow_url}/execution/",
        **{
            f"AIRFLOW_CONN_{name.upper()}": json.dumps(connection, separators=(",", ":"))
            for name, connection in connections.items()
        },
        "DOCKER_HOST": settings.engine_url,
        "GOOGLE_CLOUD_PROJECT": settings.project,
        "STORAGE_EMULATOR_HOST": settings.object_store_url,
        **STORAGE_CLIENTS,
        **settings.vertex_environment,
        **settings.authorities_environment,
        "PYTHONUNBUFFERED": "1",
        **settings.airflow_environment,
    }


def airflow_connections(
    settings: StackSettings,
    *,
    base_image: str,
    token: str,
    finder_password: str,
    google_key: str = "",
    training_host: str = LOOPBACK,
    airflow_host: str = LOOPBACK,
) -> dict[str, dict[str, Any]]:
    """
    Return Airflow's connections to the stack, by their ids. Pure.

    :param google_key: content of the key file of Airflow's account; empty: Google's operators send no token.
    :param training_host: where Airflow's processes find the training service.
    :param airflow_host: where they find Airflow's API.
    """
    is_vertex = settings.backend is Backend.VERTEX
    training: dict[str, Any] = {
        "conn_type": "container_training",
        "host": training_host,
        "port": settings.training_port,
        "schema": "http",
        "password": token,
        "extra": {
            "project": settings.project,
            "job_bucket": settings.job_bucket,
            "image_prefix": settings.image_prefix,
            **({"registry": settings.registry} if settings.is_advertised else {}),
            "base_image": base_image,
            "container_env": settings.container_environment,
            **({"prices": settings.prices, "currency": settings.currency} if settings.prices else {}),
        },
    }
    as_whom = {"keyfile_dict": google_key} if google_key else {"is_anonymous": True}
    google = {
        "conn_type": "google_cloud_platform",
        "extra": {"project": settings.project, **as_whom},
    }
    registry = {
        "conn_type": "docker",
        "host": settings.registry,
        "login": REGISTRY_USER,
        "password": token,
    }
    own_api = {
        "conn_type": "http",
        "host": airflow_host,
        "port": settings.airflow_port,
        "schema": "http",
        "login": ORPHAN_FINDER,
        "password": finder_password,
    }
    vertex = {
        "conn_type": "vertex_training",
        "host": f"http://{training_host}:{settings.training_port}/vertex",
        "password": token,
        "extra": {
            **training["extra"],
            "region": "us-central1",
            "min_poll_seconds": 0.5,
            "dashboard_conn_id": "training_local" if is_vertex else "training_default",
        },
    }
    return {
        "training_default": vertex if is_vertex else training,
        "training_vertex": vertex,
        **({"training_local": training} if is_vertex else {}),  # the dashboard asks the service itself
        "google_cloud_default": google,
        "docker_default": registry,
        "airflow_api_default": own_api,
    }
