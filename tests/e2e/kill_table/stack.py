"""The stack that the kill table runs on, and what keeps its tasks and jobs in their phases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import psutil

from container_engines.labels import SERVICE
from local_stack.parts.airflow import passwords_file
from local_stack.parts.database import airflow_database_url
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.people.credentials import REGISTRY_USER, airflow_token, ensure_credentials
from local_stack.settings import PORTS, AirflowDatabase, Part, StackSettings
from local_stack.stack import LocalStack
from tests.e2e.kill_table.bed import ABSENT_IMAGE, Bed, make_job
from tests.e2e.kill_table.gate import Gate
from tests.e2e.kill_table.table import Phase
from tests.e2e.kill_table.watch import Watch
from tests.support import web
from tests.support.bed.real_parts import PROJECT, end_all_jobs, preloaded, push_image
from tests.support.bed.service_process import ServiceProcess, service_id_of
from tests.support.kept_logs import logs_in
from tests.support.own_images import remove_own_images
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.speed import drawn_out, scaled
from training_api.clients.backend import TrainingBackend
from training_api.clients.training import TrainingClient
from training_api.clients.vertex.client import VertexClient
from training_api.errors import TransportError
from training_api.vertex_jobs.address import VertexAddress

HERE = Path(__file__).parent
#: On an idle machine with two cores; a run must be in its phase before its limit is reached.
EXECUTION_SECONDS = 30.0
DEADLINE_SECONDS = 60.0
#: After so long without a word from it, a task is taken for dead.
HEARTBEAT_SECONDS = 25.0
#: The same of a scheduler.
SCHEDULER_SECONDS = 30.0
#: Forty tasks at once keep the API server busy; a person's request waits its turn.
_ANSWER_SECONDS = 120.0
SLEEP = ["python3", "-c", "import time; time.sleep(3600)"]
#: What a cell's build makes stays on the engine: an upload is another row.
_BUILT_IMAGES = current_run().image("kill-table")
#: So that the tasks of a row run side by side, and that what is dead is noticed within seconds, not minutes.
AIRFLOW = preloaded() | {
    "AIRFLOW__CORE__PARALLELISM": "40",
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": "100",
    "AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY": "40",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    # The 0.2 s of airflow.cfg cost a tenth of a core. The kill table does not measure how soon a task starts.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
}


@contextmanager
def open_bed(folder: Path, base_image: str, engine: docker.APIClient) -> Iterator[Bed]:
    """Bring everything up; take it down, and remove what the runs left on the engine."""
    settings = StackSettings(
        state_dir=folder,
        base_image=base_image,
        health_timeout_seconds=300,
        airflow_database=AirflowDatabase.POSTGRESQL,
        database_dir=current_run().make_folder("database") / "postgresql",
        **{name: reserve_port() for name in PORTS},
        training_environment={
            "TRAINING_OVERCOMMIT": "100",
            "TRAINING_MEMORY_LIMIT_BYTES": str(128 * 1024**2),
            "TRAINING_STOP_GRACE_SECONDS": "0",
            "TRAINING_PULL_RETRY_SECONDS": "3600",
        },
    )
    ensure_credentials(settings)
    with ExitStack() as stack_of_parts:
        full_service = ServiceProcess(
            folder,
            TRAINING_MAX_REPLICAS="1",
            TRAINING_PULL_RETRY_SECONDS="3600",
            TRAINING_STOP_GRACE_SECONDS="0",
        )
        gates = _gates(settings)
        pushes = gates[Phase.PUSHING]
        for gate in gates.values():
            stack_of_parts.callback(gate.close)
        stack_of_parts.callback(
            remove_own_images,
            engine,
            lambda name: name.startswith((f"127.0.0.1:{pushes.port}/", f"{_BUILT_IMAGES}/")),
        )
        stack = stack_of_parts.enter_context(
            LocalStack(
                settings.model_copy(
                    update={
                        "airflow_environment": AIRFLOW
                        | _connections(
                            settings, {phase: gate.port for phase, gate in gates.items()}, full_service.port
                        )
                        | _limits()
                        | {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{gates[Phase.ONE_COLLECTING].port}"}
                    }
                )
            )
        )
        stack_of_parts.enter_context(logs_in(settings.log_dir, "the kill table's stack"))
        stack_of_parts.enter_context(logs_in(folder / "airflow" / "logs", "its tasks, a folder a cell"))
        stack.up([Part.ENGINE, Part.REGISTRY, Part.OBJECT_STORE, Part.TRAINING])
        current_run().own_label(SERVICE, service_id_of(f"sqlite:///{settings.key_dir / 'jobs.db'}"))
        repository, digest = push_image(settings, engine, base_image)
        stack_of_parts.callback(engine.remove_image, f"{repository}:test")
        full_service.start()
        stack.up([Part.DATABASE, Part.AIRFLOW])
        stack_of_parts.callback(_kill_scheduler, stack)
        _warm_up(settings)
        stack_of_parts.callback(full_service.kill)
        api = stack_of_parts.enter_context(
            AirflowApi(
                settings.airflow_url, ADMIN, passwords_file(settings), timeout_seconds=scaled(_ANSWER_SECONDS)
            )
        )
        training = stack_of_parts.enter_context(TrainingClient(settings.training_url, PROJECT))
        full = stack_of_parts.enter_context(full_service.client())
        vertex = stack_of_parts.enter_context(
            VertexClient(
                VertexAddress(
                    project=PROJECT, regions=("us-central1",), endpoint=f"{settings.training_url}/vertex"
                )
            )
        )
        for client in (training, full, vertex):
            stack_of_parts.callback(_end_jobs, client)
        full.create_job(make_job("blocker", ABSENT_IMAGE, command=SLEEP))
        yield Bed(
            stack=stack,
            image=f"{repository}@{digest}",
            api=api,
            engine=engine,
            training=training,
            full=full,
            full_service=full_service,
            vertex=vertex,
            gates=gates,
            slowness=scaled(1.0),
            watch=Watch(
                airflow_database_url(settings).replace("+psycopg", ""),
                (training, full, vertex),
                engine,
                prefix=f"{pushes.port}-",
            ),
        )


def _gates(settings: StackSettings) -> Mapping[Phase, Gate]:
    """Return the gate of each phase that an answer keeps a task in; two phases may share one."""
    jobs = r"/v1/projects/[^/ ]+/jobs"
    vertex_jobs = r"/vertex/v1/projects/[^/ ]+/locations/[^/ ]+/customJobs"
    label = r'"cell": ?"([^"]+)"'
    submissions = Gate(settings.training_port, rf"POST {jobs} ", label)
    uploads = r"POST /v2/[^ ]+/blobs/uploads/"
    listings = r"GET /storage/v1/b/[^/ ]+/o\?"
    return {
        Phase.PUSHING: Gate(settings.registry_port, uploads, rf"/v2/{PROJECT}/([^/]+)/blobs"),
        Phase.SUBMITTING: submissions,
        Phase.ONE_SUBMITTING: submissions,
        Phase.VERTEX_SUBMITTING: Gate(settings.training_port, rf"POST {vertex_jobs} ", label),
        Phase.COLLECTING: Gate(settings.training_port, rf"GET {jobs}/", rf"GET {jobs}/([^ ]+) "),
        Phase.VERTEX_COLLECTING: Gate(
            settings.training_port, rf"GET {vertex_jobs}/", rf"GET {vertex_jobs}/(\d+) "
        ),
        Phase.ONE_COLLECTING: Gate(settings.object_store_port, listings, r"one%2F([^%& ]+)%2F"),
    }


def _connections(settings: StackSettings, gates: Mapping[Phase, int], full: int) -> Mapping[str, str]:
    """:param gates: ports. :param full: port of the service in which one job has room."""

    def training(port: int) -> str:
        return json.dumps(
            {
                "conn_type": "container_training",
                "host": "127.0.0.1",
                "port": port,
                "extra": {"project": PROJECT},
            }
        )

    def vertex(port: int) -> str:
        return json.dumps(
            {
                "conn_type": "vertex_training",
                "host": f"http://127.0.0.1:{port}/vertex",
                "password": "any",
                "extra": {"project": PROJECT, "region": "us-central1", "min_poll_seconds": 0.5},
            }
        )

    pushes = gates[Phase.PUSHING]
    registry: dict[str, Any] = {
        "conn_type": "docker",
        "host": f"127.0.0.1:{pushes}",
        "login": REGISTRY_USER,
        "password": airflow_token(settings),
    }
    bundle = {
        "name": "kill-table",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(HERE / "dags")},
    }
    return {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "AIRFLOW_CONN_TRAINING_GATE": training(gates[Phase.SUBMITTING]),
        "AIRFLOW_CONN_TRAINING_GATE_READS": training(gates[Phase.COLLECTING]),
        "AIRFLOW_CONN_TRAINING_FULL": training(full),
        "AIRFLOW_CONN_VERTEX": vertex(settings.training_port),
        "AIRFLOW_CONN_VERTEX_GATE": vertex(gates[Phase.VERTEX_SUBMITTING]),
        "AIRFLOW_CONN_VERTEX_GATE_READS": vertex(gates[Phase.VERTEX_COLLECTING]),
        "AIRFLOW_CONN_DOCKER_GATE": json.dumps(registry),
        "KILL_TABLE_CONTEXT": str(HERE / "slow_image"),
        "KILL_TABLE_IMAGES": _BUILT_IMAGES,
        "KILL_TABLE_REGISTRY_PORT": str(pushes),
    }


def _limits() -> Mapping[str, str]:
    """
    Return the time limits.

    If one is reached too early all the same, the campaign begins a run again.
    """
    return {
        "KILL_TABLE_EXECUTION_SECONDS": str(drawn_out(EXECUTION_SECONDS)),
        "KILL_TABLE_DEADLINE_SECONDS": str(drawn_out(DEADLINE_SECONDS)),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(round(drawn_out(HEARTBEAT_SECONDS))),
        # A scheduler that is late with its own heartbeat takes itself for dead, and gives away its own tasks.
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": str(round(drawn_out(SCHEDULER_SECONDS))),
    }


def _warm_up(settings: StackSettings) -> None:
    """
    Ask the API of tasks once.

    Its first answer takes seconds, in which the API server answers no other request.
    """
    web.get(f"{settings.airflow_url}/execution/health", timeout=300).raise_for_status()


def _end_jobs(client: TrainingBackend) -> None:
    """A service that is down, as a strike has failed, must not hide why."""
    with suppress(TransportError):
        end_all_jobs(client)


def _kill_scheduler(stack: LocalStack) -> None:
    """With its workers and tasks: it would wait for tasks that never end."""
    info = stack.processes.info("airflow-scheduler")
    if info is not None and info.pid is not None:
        scheduler = psutil.Process(info.pid)
        for process in (scheduler, *scheduler.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        stack.processes.stop("airflow-scheduler")
