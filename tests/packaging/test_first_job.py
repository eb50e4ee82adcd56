"""The commands of docs/install.md, up to a job, in an Airflow with Celery."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import httpx
import psycopg
import pytest

from container_engines.labels import SERVICE
from local_stack.parts.gateway import find_gateway
from local_stack.parts.registry import find_registry_program
from local_stack.settings import StackSettings
from tests.packaging.fresh_venv import FreshVenv
from tests.packaging.plain_airflow import PlainAirflow, run_redis
from tests.support import web
from tests.support.bed.postgresql import PostgresServer
from tests.support.bed.registry import run_registry
from tests.support.bed.service_process import service_id_of
from tests.support.docs_examples import ROOT, examples
from tests.support.kept_logs import logs_in
from tests.support.own_images import remove_own_images
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.states import JobState

PAGE = ROOT / "docs" / "install.md"
LIMIT_COMMANDS = 10
#: What the page says of this machine, which is otherwise during the tests.
REGISTRY, STORE, SERVICE_PORT, BRIDGE = "127.0.0.1:5000", "9023", "8470", "172.17.0.1"

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(600),
    pytest.mark.needs_program("redis-server"),
    pytest.mark.needs_program("curl"),
]


def test_the_page_has_at_most_ten_commands() -> None:
    install, run = examples("install", PAGE)

    # And one to start Airflow again, which is the reader's own.
    assert len([*commands_of(install.code), *commands_of(run.code), "restart"]) <= LIMIT_COMMANDS


@pytest.mark.extended
def test_a_plain_airflow_with_celery_runs_the_pages_job(
    airflow: PlainAirflow,
    here: Mapping[str, str],
    wheels: Mapping[str, Path],
    tmp_path: Path,
) -> None:
    install, run = (replaced(example.code, here) for example in examples("install", PAGE))
    shell = Shell(tmp_path, airflow.venv.variables() | airflow.settings | sources(wheels, tmp_path))
    begun = time.monotonic()

    with shell.session():
        environment = shell.run(install)
        address = f"http://127.0.0.1:{here[SERVICE_PORT]}"
        wait_until(
            lambda: web.get(f"{address}/health/ready").is_success,
            "the service is ready",
            ignoring=httpx.TransportError,
        )
        current_run().own_label(SERVICE, service_id_of(f"sqlite:///{tmp_path}/.local/training/jobs.db"))
        with airflow.running(environment):
            wait_until(lambda: states(airflow, "dag", "is_stale"), "the DAG is there", seconds=120)
            shell.run(run)
            wait_until(
                lambda: states(airflow, "dag_run", "state")[0] in ("success", "failed"),
                "the run has ended",
                seconds=400,
                poll_seconds=0.5,
            )
        seconds = time.monotonic() - begun
        with TrainingClient(address, "demo-project") as training:
            (job,) = training.list_jobs("", page_size=10).jobs or []

    print(f"from pip install to a finished job: {seconds:.0f} s")
    assert states(airflow, "dag_run", "state") == ["success"]
    assert set(states(airflow, "task_instance", "state")) == {"success"}
    assert job.state is JobState.SUCCEEDED
    assert (job.training_input.master_config.image_uri or "").startswith(  # type: ignore[union-attr]
        f"{here[REGISTRY]}/demo-project/digits@sha256:"
    )


class Shell:
    """
    A shell that keeps what is exported and what runs in the background, as a reader's does.

    :param folder: where it is.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._groups: list[int] = []

    @contextmanager
    def session(self) -> Iterator[None]:
        """End what runs in the background when the block ends."""
        try:
            yield
        finally:
            for group in self._groups:
                with suppress(ProcessLookupError):  # it ended by itself, which its log says
                    os.killpg(group, signal.SIGTERM)

    def run(self, code: str) -> Mapping[str, str]:
        """Run ``code``; return the environment after it."""
        after = self._folder / "environment"
        script = f"{code}\nenv --null > {shlex.quote(str(after))}\n"
        log = self._folder / "shell.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["bash", "-euxo", "pipefail", "-c", script],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if code.count(" &\n"):
            self._groups.append(process.pid)
        assert process.wait(scaled(400)) == 0, log.read_text("utf-8")[-4000:]
        pairs = (line.partition("=") for line in after.read_text("utf-8").split("\0") if line)
        self._environment = {name: value for name, _, value in pairs}
        return self._environment


def commands_of(code: str) -> list[str]:
    """Return the commands, each with its continued lines and its text."""
    code = re.sub(r"<<'END'\n.*?^END$", "", code, flags=re.DOTALL | re.MULTILINE).replace("\\\n", " ")
    code = re.sub(r"'[^']*'", lambda match: match[0].replace("\n", " "), code)
    return [line for line in code.splitlines() if line.strip()]


def replaced(code: str, here: Mapping[str, str]) -> str:
    for name, value in here.items():
        code = code.replace(name, value)
    return code


def sources(wheels: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Return where pip finds the wheels, and the versions of everything else."""
    pins = re.findall(r"^[\w.\[\]-]+==[^ \\;]+", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins), encoding="utf-8")
    (dist,) = {wheel.parent for wheel in wheels.values()}
    links = f"{os.environ.get('PIP_FIND_LINKS', '')} {dist}".strip()
    return {"PIP_CONSTRAINT": str(constraints), "PIP_FIND_LINKS": links, "PIP_QUIET": "1"}


def states(airflow: PlainAirflow, table: str, column: str) -> list[object]:
    """Return a column of what Airflow's database has of the DAG."""
    url = airflow.settings["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        query = f"SELECT {column} FROM {table} WHERE dag_id = 'first_job'"  # noqa: S608  # our own words
        return [row[0] for row in connection.execute(query.encode())]


@pytest.fixture(scope="module")
def airflow(postgresql: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainAirflow]:
    """A plain Airflow with Celery, whose processes do not run."""
    folder = tmp_path_factory.mktemp("plain")
    version = re.search(
        r"^apache-airflow==(\S+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE
    )
    assert version is not None
    # Airflow's constraints have it, too: the provider 3.26.0 imports a name that Celery 5.7 has lost.
    packages = [f"apache-airflow[celery,postgres]=={version[1]}", "celery<5.7"]
    venv = FreshVenv.with_packages(folder / "venv", packages)
    with run_redis(folder) as redis_port, logs_in(folder, "a plain Airflow"):
        yield PlainAirflow.make(venv, folder / "airflow", postgresql.make_database(), redis_port)


@pytest.fixture
def here(engine_client: docker.APIClient, base_image: str, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """What stands in the page -> what it is on this machine, in this test."""
    registry = f"127.0.0.1:{reserve_port()}"
    program = find_registry_program(StackSettings())
    assert program is not None, "the page's registry needs the Debian package docker-registry"
    folder = tmp_path / "registry"
    folder.mkdir()
    with run_registry(program, folder, registry):
        yield {
            REGISTRY: registry,
            STORE: str(reserve_port()),
            SERVICE_PORT: str(reserve_port()),
            BRIDGE: find_gateway(StackSettings().engine_url) or BRIDGE,
            # No public registry answers here.
            '"image_prefix"': f'"base_image": "{base_image}", "image_prefix"',
        }
    remove_own_images(engine_client, lambda name: name.startswith(f"{registry}/"))
