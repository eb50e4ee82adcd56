"""
Airflow on three machines: two Celery workers with an engine each, and one with all else.

The workers' machines are network namespaces with an engine (``machines``). What the third one serves, this
machine, they find under the same addresses through tunnels, as the guide shows (docs/more-machines.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker

from container_engines.labels import SERVICE
from local_stack.parts.airflow import airflow_environment, airflow_state, passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.people.credentials import airflow_token, ensure_credentials
from local_stack.settings import PORTS, REPOSITORY_ROOT, AirflowDatabase, Part, StackSettings
from local_stack.stack import LocalStack
from tests.support.bed.machines import Machines, Node
from tests.support.bed.port_tunnels import port_tunnels
from tests.support.bed.real_parts import PROJECT, end_all_jobs
from tests.support.bed.service_process import service_id_of
from tests.support.dead_runs import remove_each
from tests.support.kept_logs import logs_in
from tests.support.own_images import remove_own_images
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.speed import drawn_out, scaled
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient

HERE = Path(__file__).parent
#: After so long without a word from it, a task is taken for dead.
HEARTBEAT_SECONDS = 20.0


@dataclass
class WorkerHost:
    """A machine with an engine and a Celery worker, whose queues are ``default`` and its own."""

    node: Node
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        """What Airflow calls it, too."""
        return self.node.name

    def start_worker(self) -> None:
        """Start the worker; returns when it takes tasks."""
        log = self.node.folder / "worker.log"
        before = _times_ready(log)
        self.node.run(
            "worker",
            *(sys.executable, "-m", "airflow", "celery", "worker", "--skip-serve-logs", "--without-mingle"),
            *("--queues", f"default,{self.name}", "--concurrency", "2"),
            *("--pid", str(self.node.folder / "worker.pid")),
            environment=self.environment,
        )
        wait_until(
            lambda: _times_ready(log) > before, f"the worker of {self.name} is ready ({log})", seconds=120
        )

    def kill(self) -> None:
        """Pull the plug: worker and engine end at once, with all that they run."""
        self.node.power_off()

    def start(self) -> None:
        """Switch the machine on again: engine, then worker."""
        (self.node.folder / "worker.pid").unlink(missing_ok=True)
        self.node.start()
        self.start_worker()


@dataclass(frozen=True)
class TwoHosts:
    """The parts, as the tests use them."""

    stack: LocalStack
    api: AirflowApi
    training: TrainingClient
    hosts: dict[str, WorkerHost]


@contextmanager
def open_hosts(folder: Path, base_image: str, engine: docker.APIClient) -> Iterator[TwoHosts]:
    """Bring everything up; take it down, and remove what the runs left on this machine's engine."""
    redis_port = reserve_port()
    settings = StackSettings(
        state_dir=folder,
        base_image=base_image,
        health_timeout_seconds=300,
        airflow_database=AirflowDatabase.POSTGRESQL,
        database_dir=current_run().make_folder("database") / "postgresql",
        **{name: reserve_port() for name in PORTS},
        training_environment={
            "TRAINING_MEMORY_LIMIT_BYTES": str(1024**3),
            "TRAINING_STOP_GRACE_SECONDS": "2",
        },
        airflow_environment=_airflow(redis_port),
    )
    ensure_credentials(settings)
    with ExitStack() as parts:
        parts.callback(
            remove_own_images, engine, lambda name: name.startswith(f"127.0.0.1:{settings.registry_port}/")
        )
        stack = parts.enter_context(LocalStack(settings))
        parts.enter_context(logs_in(settings.log_dir, "the stack of the two hosts"))
        parts.enter_context(logs_in(airflow_state(settings) / "logs", "its tasks"))
        stack.up([Part.ENGINE, Part.REGISTRY, Part.OBJECT_STORE, Part.TRAINING])
        current_run().own_label(SERVICE, service_id_of(f"sqlite:///{settings.key_dir / 'jobs.db'}"))
        parts.enter_context(_redis(redis_port, folder))
        stack.up([Part.DATABASE, Part.AIRFLOW])
        training = parts.enter_context(TrainingClient(settings.training_url, PROJECT))
        parts.callback(end_all_jobs, training)
        environment = {
            **os.environ,
            **airflow_environment(settings, base_image=base_image, token=airflow_token(settings)),
        }
        machines = Machines(nodes=2, kind="w")
        parts.callback(machines.down)
        machines.up()
        parts.enter_context(logs_in(machines.disk, "the machines of the workers"))
        ports = (*(getattr(settings, name) for name in PORTS), redis_port)
        hosts = {}
        with _way_out(engine) as network:
            for node in machines.nodes:
                parts.enter_context(port_tunnels(node.namespace, ports))
                node.plug_into(network, engine)
                node.copy_image(base_image, engine)
                host = WorkerHost(node, {**environment, "DOCKER_HOST": node.docker_host})
                host.start_worker()
                hosts[host.name] = host
            api = parts.enter_context(
                AirflowApi(settings.airflow_url, ADMIN, passwords_file(settings), timeout_seconds=scaled(60))
            )
            yield TwoHosts(stack=stack, api=api, training=training, hosts=hosts)


def _airflow(redis_port: int) -> dict[str, str]:
    bundles = [
        {
            "name": name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(path)},
        }
        for name, path in (("examples", REPOSITORY_ROOT / "dags"), ("two-hosts", HERE / "dags"))
    ]
    return {
        "PYTHONPATH": str(HERE),  # of airflow_local_settings
        "TESTS_RUN_ID": current_run().id,
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__CORE__PARALLELISM": "16",
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "AIRFLOW__CELERY__BROKER_URL": f"redis://127.0.0.1:{redis_port}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"redis://127.0.0.1:{redis_port}/1",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        # What is dead is noticed within seconds, not minutes.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(round(drawn_out(HEARTBEAT_SECONDS))),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": str(round(drawn_out(30))),
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "5",
    }


@contextmanager
def _redis(port: int, folder: Path) -> Iterator[None]:
    """Run the broker."""
    command = ["setpriv", "--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--port", str(port)]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([*command, "--save", "", "--dir", str(folder)], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(scaled(60))


@contextmanager
def _way_out(engine: docker.APIClient) -> Iterator[str]:
    """Make a network by which the hosts' builds reach what they download."""
    name = f"{current_run().id}-hosts"
    made = engine.create_network(name, driver="bridge", labels=current_run().labels)["Id"]
    try:
        yield made
    finally:
        remove_each(engine.remove_network, [made])


def _times_ready(log: Path) -> int:
    return log.read_text(errors="replace").count(" ready.") if log.exists() else 0
