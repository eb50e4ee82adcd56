"""
The real engine, registry, object store and training service, once per test session.

They listen on free ports.

``make test`` brings up the engine and the base image before it starts pytest
(``python -m local_stack test-bed``).
"""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.utils import kwargs_from_env

from container_engines.labels import JOB_UID, SERVICE
from local_stack.parts.base_image import BaseImage
from local_stack.people.credentials import developers_header, registry_login
from local_stack.settings import PORTS, REPOSITORY_ROOT, AirflowDatabase, Part, StackSettings
from local_stack.stack import LocalStack
from tests.support.bed.service_process import service_id_of
from tests.support.dead_runs import clean_up_after_dead_runs, remove_each
from tests.support.kept_logs import logs_in
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef, parse_image_ref

PROJECT = "demo-project"


@pytest.fixture(scope="session")
def engine_client() -> Iterator[docker.APIClient]:
    """The engine that the tests run against; what killed runs of tests left on it is gone."""
    client = docker.APIClient(**kwargs_from_env(), timeout=scaled(60))
    clean_up_after_dead_runs(client)
    yield client
    _remove_shared_networks(client)
    client.close()


def _remove_shared_networks(client: docker.APIClient) -> None:
    """Remove the networks that jobs of this process's services shared: an engine has few."""
    for service_id in current_run().owned[SERVICE]:
        networks = client.networks(filters={"label": f"{SERVICE}={service_id}"})
        shared = [network["Id"] for network in networks if JOB_UID not in network["Labels"]]
        remove_each(client.remove_network, shared)  # the job of a failed test may still be in one


@pytest.fixture(scope="session")
def base_image() -> str:
    """What Dockerfiles start from on this machine; it has Python."""
    return BaseImage.name_of(StackSettings())


@pytest.fixture(scope="session")
def extra_dags() -> Path:
    """A folder whose DAGs Airflow has beside those of the checkout; it is empty."""
    return current_run().make_folder("extra-dags")


@pytest.fixture(scope="session")
def stack(
    engine_client: docker.APIClient,
    base_image: str,
    tmp_path_factory: pytest.TempPathFactory,
    extra_dags: Path,
) -> Iterator[LocalStack]:
    """
    A registry, an object store and a training service for tests.

    Airflow, for tests that ask for it, runs on PostgreSQL.
    """
    settings = StackSettings(
        state_dir=tmp_path_factory.mktemp("stack"),
        database_dir=current_run().make_folder("database") / "postgresql",
        **{name: reserve_port() for name in PORTS},
        airflow_database=AirflowDatabase.POSTGRESQL,
        base_image=base_image,
        health_timeout_seconds=scaled(300),
        prices={"n1-standard-4": 0.01},
        currency="EUR",
        airflow_environment={
            # No DAG file changes here, and to read all of them again and again takes a fifth of a core.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            **preloaded("operators.vertex_ai.custom_job", "operators.vertex_ai.hyperparameter_tuning_job"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(_bundles(extra_dags)),
        },
        training_environment={
            "TRAINING_MEMORY_LIMIT_BYTES": str(1024**3),  # TensorFlow and PyTorch need more than half of it
            "TRAINING_STOP_GRACE_SECONDS": "2",
            # tests/docker/test_disk_limit.py exceeds these.
            "TRAINING_DISK_LIMIT_BYTES": str(2 * 1024**3),
            "TRAINING_DISK_LIMIT_FILES": "50000",
        },
    )
    with LocalStack(settings) as stack, logs_in(settings.log_dir, "the session's stack"):
        stack.up([Part.ENGINE, Part.REGISTRY, Part.OBJECT_STORE, Part.TRAINING])
        current_run().own_label(SERVICE, service_id_of(f"sqlite:///{stack.settings.key_dir / 'jobs.db'}"))
        yield stack
        # Jobs outlive their service on purpose; those of a test that failed must not outlive the tests.
        with TrainingClient(stack.settings.training_url, PROJECT) as client:
            end_all_jobs(client)


def preloaded(*modules: str) -> dict[str, str]:
    """
    Return the variables with which Airflow imports ``modules`` once.

    And the hook of Cloud Storage, which many tasks use.
    """
    folder = Path(__file__).parent / "preloaded"  # of airflow_local_settings
    return {"PYTHONPATH": str(folder), "TESTS_PRELOADED": " ".join(("hooks.gcs", *modules))}


def _bundles(extra_dags: Path) -> list[dict[str, Any]]:
    folders = {"dags-folder": REPOSITORY_ROOT / "dags", "extra": extra_dags}
    return [
        {
            "name": name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(path)},
        }
        for name, path in folders.items()
    ]


def kill_service(stack: LocalStack) -> None:
    """SIGKILL the training service, if it is up; the stack's process manager starts it again."""
    pid = next(
        (info.pid for info in stack.processes.all().values() if info.name == Part.TRAINING.value), None
    )
    if pid:
        os.kill(pid, signal.SIGKILL)


def end_all_jobs(client: TrainingClient) -> None:
    """Cancel every job that has not ended, and wait until each has."""
    alive = "NOT (state=SUCCEEDED OR state=FAILED OR state=CANCELLED)"

    def have_ended() -> bool:
        jobs = client.list_jobs(alive, page_size=100).jobs or []
        for job in jobs:
            client.cancel_job(job.job_id or "")
        assert not jobs, [job.job_id for job in jobs]
        return True

    wait_until(have_ended, "all jobs have ended", seconds=120, poll_seconds=0.2, ignoring=AssertionError)


@pytest.fixture
def training(stack: LocalStack) -> Iterator[TrainingClient]:
    """The developer's client of the stack's training service."""
    headers = developers_header(stack.settings)
    with TrainingClient(stack.settings.training_url, PROJECT, headers=headers) as client:
        yield client


@pytest.fixture(scope="session")
def pushed_image(stack: LocalStack, engine_client: docker.APIClient, base_image: str) -> Iterator[ImageRef]:
    """The base image in the stack's registry, by digest; it runs ``python3``."""
    repository, digest = push_image(stack.settings, engine_client, base_image)
    yield parse_image_ref(f"{repository}@{digest}")
    engine_client.remove_image(f"{repository}:test")


def push_image(
    settings: StackSettings, engine_client: docker.APIClient, image: str, name: str = "python"
) -> tuple[str, str]:
    """Push ``image`` of the engine as ``NAME:test``; return its repository and its digest."""
    repository = f"127.0.0.1:{settings.registry_port}/{PROJECT}/{name}"
    engine_client.tag(image, repository, "test")
    login = registry_login(settings)
    lines = list(engine_client.push(repository, tag="test", stream=True, decode=True, auth_config=login))
    assert not [line for line in lines if "error" in line]
    (digest,) = [line["aux"]["Digest"] for line in lines if "aux" in line]
    return repository, digest


@pytest.fixture
def job_id() -> str:
    """A job id that nobody used."""
    return f"job_{uuid.uuid4().hex[:12]}"


def kill_program(stack: LocalStack, name: str) -> None:
    """SIGKILL to a program of the stack; it stays away until it is brought up again."""
    info = stack.processes.info(name)
    assert info is not None
    assert info.pid is not None
    os.kill(info.pid, signal.SIGKILL)

    def is_stopped() -> bool:
        # Between the death and the restart there is nothing to stop.
        stack.processes.stop(name)
        info = stack.processes.info(name)
        return info is not None and info.state == "STOPPED"

    wait_until(is_stopped, f"{name} stays away")
