"""
Fault injection over HTTP: how often each fault happens.

Clients and tasks get over every fault.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow.sdk import DAG

from container_engines.memory.engine import Behaviour
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.bed.job_watch import until_state
from tests.support.docs_examples import ROOT, Example, examples
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import (
    AccessDenied,
    JobConflict,
    JobNotFound,
    ServiceError,
    ServiceUnavailable,
    Throttled,
    TransportError,
)
from training_api.states import JobState
from training_service.faults.rules import METHODS, FaultKind

ADMIN, OWNER = "admin-token-of-some-length", "owner-token-of-some-length"
_TRAINING = {"region": "us-central1", "masterConfig": {"imageUri": IMAGE}}
_STOCK_OUT = {"kind": "stockOut"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LiveService]:
    with run_service(tmp_path, fault_injection=True) as service:
        yield service


@pytest.fixture
def client(service: LiveService) -> Iterator[TrainingClient]:
    with TrainingClient(service.endpoint, "demo-project", timeout_seconds=scaled(60)) as client:
        yield client


def ask(service: LiveService, method: str, path: str, **arguments: Any) -> httpx.Response:
    return web.request(method, service.endpoint + path, **arguments)


def set_fault(service: LiveService, **fault: Any) -> str:
    answer = ask(service, "POST", "/faults", json=fault)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def happened(service: LiveService) -> list[int]:
    return [each["happened"] for each in ask(service, "GET", "/faults").json()["faults"]]


def submit(client: TrainingClient, job_id: str = "a_job") -> None:
    client.create_job(Job.model_validate({"jobId": job_id, "trainingInput": _TRAINING}))


def state_of(client: TrainingClient, job_id: str = "a_job") -> JobState | None:
    return client.get_job(job_id).state


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, ServiceError),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, JobNotFound),
        (409, JobConflict),
        (500, ServiceUnavailable),
        (502, ServiceUnavailable),
        (503, ServiceUnavailable),
        (504, ServiceUnavailable),
    ],
)
def test_an_error_happens_to_the_next_calls_and_then_no_more(
    service: LiveService, client: TrainingClient, code: int, error: type[Exception]
) -> None:
    submit(client)
    set_fault(service, kind="error", code=code, times=2, methods=["jobs.get"])

    for _ in range(2):
        client.list_jobs()
        with pytest.raises(error, match="fault injection"):
            client.get_job("a_job")

    assert state_of(client) is not None
    assert happened(service) == [2]


def test_a_429_says_when_to_come_back(service: LiveService, client: TrainingClient) -> None:
    set_fault(service, kind="error", code=429, retryAfterSeconds=7, times=1)

    with pytest.raises(Throttled) as raised:
        client.list_jobs()

    assert raised.value.retry_after_seconds == 7


def test_an_error_on_a_call_means_that_nothing_was_done(service: LiveService, client: TrainingClient) -> None:
    set_fault(service, kind="error", code=503, times=1, methods=["jobs.create"])

    with pytest.raises(ServiceUnavailable):
        submit(client)

    with pytest.raises(JobNotFound):
        client.get_job("a_job")


def test_a_dropped_answer_means_that_it_was_done(service: LiveService, client: TrainingClient) -> None:
    set_fault(service, kind="drop", times=1, methods=["jobs.create"])

    with pytest.raises(TransportError):
        submit(client)

    assert state_of(client) is not None
    with pytest.raises(JobConflict):
        submit(client)


def test_a_delay_makes_a_call_late(service: LiveService, client: TrainingClient) -> None:
    set_fault(service, kind="delay", seconds=0.6, times=1)
    started = time.monotonic()

    client.list_jobs()
    late = time.monotonic() - started
    client.list_jobs()

    assert late >= 0.6
    assert happened(service) == [1]


def test_a_fault_of_one_job_leaves_the_others_alone(service: LiveService, client: TrainingClient) -> None:
    for job_id in ("a_job", "another"):
        submit(client, job_id)
    set_fault(service, kind="error", code=500, jobId="anoth*")

    assert state_of(client) is not None
    with pytest.raises(ServiceUnavailable):
        client.get_job("another")


def test_a_storm_passes_after_its_seconds(service: LiveService, client: TrainingClient) -> None:
    def is_stormy() -> bool:
        try:
            client.list_jobs()
        except ServiceUnavailable:
            return True
        return False

    def begins() -> bool:
        ask(service, "DELETE", "/faults")
        set_fault(service, kind="error", code=503, forSeconds=scaled(1))
        return is_stormy()

    wait_until(begins, "the storm is met before it is over")
    wait_until(lambda: not is_stormy(), "the storm is over")
    assert ask(service, "GET", "/faults").json()["faults"][0]["isOver"] is True


def test_while_the_stock_is_out_jobs_stay_queued_and_can_be_cancelled(
    service: LiveService, client: TrainingClient
) -> None:
    fault_id = set_fault(service, **_STOCK_OUT)
    submit(client)
    # Another iteration of the scheduler carries out each cancel. It could have started the first job, too.
    for job_id in ("another", "a_third"):
        submit(client, job_id)
        assert state_of(client, job_id) is JobState.QUEUED
        client.cancel_job(job_id)
        until_state(client, job_id, JobState.CANCELLED)
    assert state_of(client) is JobState.QUEUED
    assert ask(service, "DELETE", f"/faults/{fault_id}").status_code == 200

    until_state(client, "a_job", JobState.RUNNING)


def test_slow_preparing_can_be_cancelled_and_ends(service: LiveService, client: TrainingClient) -> None:
    set_fault(service, kind="slowPreparing", seconds=2, jobId="a_job")
    set_fault(service, kind="slowPreparing", seconds=600, jobId="another")
    for job_id in ("a_job", "another"):
        submit(client, job_id)

    until_state(client, "another", JobState.PREPARING)
    client.cancel_job("another")
    until_state(client, "another", JobState.CANCELLED)
    job = until_state(client, "a_job", JobState.RUNNING)

    assert {launch.job_id for launch in service.engine.launches()} == {"a_job"}
    assert job.start_time is not None
    assert job.create_time is not None


def test_a_lost_replica_is_started_again_and_lost_as_often_as_asked_for(
    service: LiveService, client: TrainingClient
) -> None:
    set_fault(service, kind="loseReplica", replica="master-replica-0", seconds=0, times=2, jobId="a_job")

    submit(client)

    wait_until(lambda: happened(service) == [2], "the replica was lost twice")
    wait_until(
        lambda: [str(launch.attempt) for launch in service.engine.launches()][-1:] == ["0.2"],
        "the replica is started for the third time",
    )
    assert state_of(client) is JobState.RUNNING


def test_all_faults_are_removed_at_once(service: LiveService, client: TrainingClient) -> None:
    for code in (500, 503):
        set_fault(service, kind="error", code=code)

    ask(service, "DELETE", "/faults")

    assert client.list_jobs().jobs is None
    assert happened(service) == []


@pytest.fixture
def short_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveService]:
    """
    A service whose jobs run three seconds.

    Airflow's connection and the environment name it.
    """
    with run_service(tmp_path, Behaviour(run_seconds=3.0), fault_injection=True) as service:
        connection = {
            "conn_type": "container_training",
            "host": "127.0.0.1",
            "port": int(service.endpoint.rpartition(":")[2]),
            "extra": {"project": "demo-project"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
        monkeypatch.setenv("TRAINING_ENDPOINT", service.endpoint)
        with _passing_time(service):
            yield service


@contextmanager
def _passing_time(service: LiveService) -> Iterator[None]:
    """Let the engine's time pass twice as fast, but not while a replica is to be lost."""
    done = threading.Event()

    def is_quiet() -> bool:
        faults = ask(service, "GET", "/faults").json()["faults"]
        return all(each["isOver"] for each in faults if each["fault"]["kind"] == "loseReplica")

    def run() -> None:
        while not done.wait(0.5):
            if is_quiet():
                service.engine.advance(1.0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def make_dag(name: str) -> DAG:
    with DAG(name, schedule=None) as dag:
        submit = SubmitTrainingJobOperator(task_id="submit", image=IMAGE)
        TrainingJobSensor(task_id="finished", job_id=submit.output)
    return dag


def test_a_dag_gets_over_a_storm_a_lost_answer_and_a_lost_replica(
    short_jobs: LiveService, register_dag: Callable[[DAG], DAG]
) -> None:
    service = short_jobs
    set_fault(service, kind="drop", times=1, methods=["jobs.create"])
    set_fault(service, kind="error", code=503, times=5, methods=["jobs.list"])
    set_fault(service, kind="error", code=429, retryAfterSeconds=1, times=1, methods=["jobs.get"])
    set_fault(service, kind="error", code=502, times=2, methods=["entries.list"])
    set_fault(service, kind="loseReplica", seconds=0, times=1)

    run = register_dag(make_dag("over_a_storm")).test()

    counts = happened(service)
    with TrainingClient(service.endpoint, "demo-project") as client:
        jobs = client.list_jobs().jobs or []
    assert {str(ti.state) for ti in run.get_task_instances()} == {"success"}
    assert [job.state for job in jobs] == [JobState.SUCCEEDED]
    assert counts == [1, 5, 1, 2, 1]


@pytest.mark.parametrize("example", examples("python faults"), ids=str)
def test_the_pages_own_check_passes_for_a_dag_of_ours(
    example: Example, short_jobs: LiveService, register_dag: Callable[[DAG], DAG]
) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(example.code, str(example.page), "exec"), namespace)  # noqa: S102  # our own page

    namespace["check_that_it_survives"](register_dag(make_dag("checked_by_the_page")))

    assert happened(short_jobs) == []


@pytest.mark.parametrize("example", examples("shell faults"), ids=str)
def test_the_pages_commands_set_show_and_remove_a_fault(example: Example, short_jobs: LiveService) -> None:
    done = subprocess.run(
        ["bash", "-euc", example.code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "no_proxy": "127.0.0.1"},
    )

    first, shown = (json.loads(each) for each in done.stdout.replace("}{", "}\n{").split("\n")[:2])
    assert shown["faults"][0]["id"] == first["id"]
    assert happened(short_jobs) == []


def test_the_page_names_every_method_and_kind() -> None:
    text = (ROOT / "docs" / "fault-injection.md").read_text("utf-8")

    assert [name for name in (*METHODS, *FaultKind) if f"`{name}`" not in text] == []
