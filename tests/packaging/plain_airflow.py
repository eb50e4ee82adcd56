"""A plain Airflow with Celery, Redis and PostgreSQL, without anything of this project."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from local_stack.parts.airflow import COMPONENTS
from tests.packaging.fresh_venv import FreshVenv
from tests.support import web
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAirflow:
    """
    Its processes, in a virtual environment of its own.

    :param folder: ``AIRFLOW_HOME``.
    :param settings: the variables of all of its processes.
    """

    folder: Path
    venv: FreshVenv
    settings: Mapping[str, str]

    @classmethod
    def make(cls, venv: FreshVenv, folder: Path, database_url: str, redis_port: int) -> PlainAirflow:
        """Return one with an empty database."""
        (folder / "dags").mkdir(parents=True)
        address = f"http://127.0.0.1:{reserve_port()}"
        settings = {
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__API__BASE_URL": address,
            "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-for-tests-only-that-is-long-enough",
            "AIRFLOW__CELERY__BROKER_URL": f"redis://127.0.0.1:{redis_port}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database_url}",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database_url,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database_url,
            # Beside the other tests the API server may take longer than 5 s, which fails the start of a task.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        }
        made = cls(folder=folder, venv=venv, settings=settings)
        made.command("db", "migrate")
        return made

    @property
    def address(self) -> str:
        """URL of the API server."""
        return self.settings["AIRFLOW__API__BASE_URL"]

    def command(self, *arguments: str) -> str:
        """Run a command of Airflow's; return what it printed."""
        done = subprocess.run(
            [self.venv.program("airflow"), *arguments],
            env=self.venv.variables() | self.settings,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=scaled(120),
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    @contextmanager
    def running(self, environment: Mapping[str, str]) -> Iterator[None]:
        """Run all processes in ``environment`` until the block ends; returns when they are healthy."""
        port = self.address.rpartition(":")[2]
        commands = {
            "api-server": ("api-server", "--host", "127.0.0.1", "--port", port, "--workers", "1"),
            "scheduler": ("scheduler", "--skip-serve-logs"),
            "dag-processor": ("dag-processor",),
            "triggerer": ("triggerer", "--skip-serve-logs"),
            "worker": ("celery", "worker", "--skip-serve-logs", "--concurrency", "3"),
        }
        with ExitStack() as stack:
            for name, arguments in commands.items():
                command = [self.venv.program("airflow"), *arguments]
                stack.enter_context(run_program(command, environment, self.folder / f"{name}.log"))
            wait_until(self._is_healthy, f"Airflow is healthy ({self.folder})", seconds=180, poll_seconds=0.5)
            yield

    def _is_healthy(self) -> bool:
        try:
            parts = web.get(f"{self.address}/api/v2/monitor/health").raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return False
        return all(parts.get(name, {}).get("status") == "healthy" for name in COMPONENTS)


@contextmanager
def run_redis(folder: Path) -> Iterator[int]:
    """Run Debian's Redis until the block ends; yield its port."""
    port = reserve_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    with run_program(command, None, folder / "redis.log"):
        ping = ["redis-cli", "-p", str(port), "ping"]
        wait_until(
            lambda: subprocess.run(ping, capture_output=True, check=False).stdout == b"PONG\n",
            "Redis answers",
        )
        yield port


@contextmanager
def run_program(command: list[str], environment: Mapping[str, str] | None, log: Path) -> Iterator[None]:
    """Run a program until the block ends; it ends with the tests' process, too."""
    with (
        log.open("ab") as output,
        subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            env=environment,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(scaled(60))
            except subprocess.TimeoutExpired:
                process.kill()
