"""The service ends soon after it is told to, whatever hangs on its engine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.bed.service_process import ServiceProcess
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from tests.support.fakes.silent_server import SilentServer, run_silent_server
from tests.support.selection import cases
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput

IMAGE = "registry.test/project/trainer:1"
STOP_SECONDS = 10
SIGNALS = pytest.mark.parametrize(
    "number", cases([signal.SIGTERM, signal.SIGINT], witnesses=[signal.SIGTERM])
)


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        engine.registry[IMAGE] = Program()
        yield engine


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], ServiceProcess]]:
    """Starts a service on the engine at a URL."""
    started: list[ServiceProcess] = []

    def start(url: str) -> ServiceProcess:
        service = ServiceProcess(tmp_path, TRAINING_DOCKER_HOST=url)
        started.append(service)
        service.start()
        return service

    yield start
    for service in started:
        service.kill()


def submit(service: ServiceProcess) -> None:
    training = TrainingInput(master_config=ReplicaConfig(image_uri=IMAGE))
    with service.client() as client:
        client.create_job(Job(job_id="job", training_input=training))


def wait_for_request(engine: FakeDocker, ending: str) -> None:
    wait_until(
        lambda: any(each.endswith(ending) for each in engine.requests), f"the engine is asked for {ending}"
    )


@SIGNALS
def test_while_a_pull_hangs(engine: FakeDocker, start: Callable[[str], ServiceProcess], number: int) -> None:
    engine.hanging["POST images/create"] = ""
    service = start(engine.url)
    submit(service)
    wait_for_request(engine, "images/create")

    service.stop(number, scaled(STOP_SECONDS))


@SIGNALS
def test_while_a_stop_hangs_and_a_log_is_followed(
    engine: FakeDocker, start: Callable[[str], ServiceProcess], number: int
) -> None:
    service = start(engine.url)
    submit(service)
    wait_for_request(engine, "/logs")
    # Another one, which closes the networks of jobs, may be there for a moment.
    (container,) = [each for name, each in engine.containers.copy().items() if "egress" not in name]
    wait_until(lambda: container.state == "running", "the container runs")
    engine.hanging_ends.add("/stop")

    with service.client() as client:
        client.cancel_job("job")
    wait_for_request(engine, "/stop")

    service.stop(number, scaled(STOP_SECONDS))


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[SilentServer]:
    with run_silent_server(tmp_path / "s") as server:
        yield server


@SIGNALS
def test_while_the_engine_takes_requests_and_never_answers(
    silent: SilentServer, start: Callable[[str], ServiceProcess], number: int
) -> None:
    service = start(silent.url)
    submit(service)
    wait_until(lambda: silent.connections, "the engine is asked")
    # A request to the service that waits for the engine, too.
    threading.Thread(target=partial(ask_quietly, f"{service.endpoint}/health"), daemon=True).start()

    service.stop(number, scaled(STOP_SECONDS))


def ask_quietly(url: str) -> None:
    with suppress(httpx.HTTPError):
        httpx.get(url, timeout=600)
