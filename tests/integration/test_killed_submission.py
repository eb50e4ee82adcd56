"""
Exactly one job per intent.

The submitting task is killed before each outside effect, and run again; by both APIs of one service.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import product, takewhile
from pathlib import Path
from typing import Any, TextIO

import pytest
from airflow.sdk import Connection

from container_training.hooks.backends import backend_address
from tests.integration.submission_process import DAG_ID
from tests.support.bed.job_watch import until_state
from tests.support.bed.service_process import PROJECT, ServiceProcess
from tests.support.speed import drawn_out
from training_api.clients.backend import TrainingBackend
from training_api.states import JobState

pytestmark = pytest.mark.docker

#: Nobody listens there: the job lives on, PREPARING or QUEUED, and needs no container.
IMAGE = "127.0.0.1:9/demo-project/absent:1"
LAG_SECONDS = drawn_out(1.5)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    service = ServiceProcess(
        tmp_path_factory.mktemp("service"), TRAINING_MAX_REPLICAS="1", TRAINING_PULL_RETRY_SECONDS="3600"
    )
    service.start()
    yield service
    service.kill()


@pytest.fixture(scope="module", params=["container_training", "vertex_training"])
def connection(service: ServiceProcess, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the connection of the tasks, of each type."""
    extra: dict[str, Any] = {"project": PROJECT}
    if request.param == "container_training":
        return {"conn_type": request.param, "host": "127.0.0.1", "port": service.port, "extra": extra}
    # Its lists do not lag; but a request of a task that was killed may still be on its way.
    extra["list_lag_seconds"] = LAG_SECONDS
    host = f"{service.endpoint}/vertex"
    return {"conn_type": request.param, "host": host, "password": "a-token", "extra": extra}


@pytest.fixture(scope="module")
def training(connection: dict[str, Any]) -> Iterator[TrainingBackend]:
    fields = {**connection, "extra": json.dumps(connection["extra"])}
    with backend_address(Connection(conn_id="training_default", **fields)).connect() as client:
        yield client


class Tasks:
    """Runs tries of tasks; each try is a process of its own."""

    def __init__(self, process: subprocess.Popen[str], answers: TextIO, folder: Path) -> None:
        self._process = process
        self._answers = answers
        self._folder = folder
        self._count = 0

    def new_run(self) -> str:
        """Return the id of a DAG run that nobody used; its state store is empty."""
        self._count += 1
        run_id = f"manual__{self._count}"
        (self._folder / run_id).mkdir()
        return run_id

    def run(self, run_id: str, kill_at: int | None = None, args: str = "--epochs 1") -> dict[str, Any]:
        """Run one try; ``kill_at`` counts from 0."""
        order = {
            "run_id": run_id,
            "kill_at": kill_at,
            "folder": str(self._folder / run_id),
            "image": IMAGE,
            "args": args,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer


@pytest.fixture(scope="module")
def tasks(connection: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tasks]:
    reader, writer = os.pipe()  # its standard output belongs to Airflow's log
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("submission_process.py")), str(writer)],
        env=os.environ | {"AIRFLOW_CONN_TRAINING_DEFAULT": json.dumps(connection)},
        stdin=subprocess.PIPE,
        text=True,
        pass_fds=(writer,),
    )
    os.close(writer)
    with process, os.fdopen(reader) as answers:
        yield Tasks(process, answers, tmp_path_factory.mktemp("tasks"))


def jobs_of(training: TrainingBackend, run_id: str) -> dict[str, JobState | None]:
    """Return the jobs that the service has for a run."""
    filter_ = f'labels.airflow-dag="{DAG_ID}" AND labels.airflow-run="{run_id}"'
    found: dict[str, JobState | None] = {}
    token = ""
    while True:
        page = training.list_jobs(filter_, page_size=100, page_token=token)
        found |= {job.job_id or "": job.state for job in page.jobs or []}
        token = page.next_page_token or ""
        if not token:
            return found


def killed_at(tasks: Tasks, place: int) -> str:
    """Return a run whose first try was killed at its ``place``-th point."""
    run_id = tasks.new_run()
    assert tasks.run(run_id, kill_at=place) == {"killed": True}
    return run_id


def changing(points: list[str]) -> Iterator[int]:
    """
    Yield the places before which a kill may differ from one before the place before.

    Of the requests between two changes of files only the last one may be the create; the others are looks.
    """
    for place, name in enumerate(points):
        if not name.startswith("socket."):
            yield place
        elif name.startswith("socket.send"):
            rest = takewhile(lambda point: point.startswith("socket."), points[place + 1 :])
            if not any(point.startswith("socket.send") for point in rest):
                yield place


@pytest.fixture(scope="module")
def points(tasks: Tasks) -> list[str]:
    """What a try does to the outside, in its order, when nothing happens to it."""
    points: list[str] = tasks.run(tasks.new_run())["points"]
    return points


def test_the_points_are_those_between_intent_request_response_and_record(
    points: list[str], training: TrainingBackend
) -> None:
    # The look, the intent, the request, the result and the record are all among them; how many more is up to
    # the code.
    # Where the service gives the ids, the moment of the create and the id are stored as well.
    assert points.count("os.rename") == (1 if training.capabilities.has_unique_ids else 3)
    assert points.count("socket.connect") >= 1
    sends = [place for place, name in enumerate(points) if name in ("socket.send", "socket.sendall")]
    assert sends[0] > points.index("os.rename"), "the intent is stored before anything is asked"
    assert len(sends) >= 2, "a look, and the submission"
    assert points[-2:] == ["open", "record"]


def test_task_killed_at_any_point_has_one_job(
    tasks: Tasks, training: TrainingBackend, points: list[str]
) -> None:
    for place, name in enumerate(points):
        run_id = killed_at(tasks, place)

        assert len(jobs_of(training, run_id)) <= 1, name
        done = tasks.run(run_id)

        assert list(jobs_of(training, run_id)) == [done["job_id"]], name


@pytest.mark.extended
@pytest.mark.timeout(900)  # some hundred and fifty tries, a second of an idle machine each
def test_task_killed_twice_has_one_job(tasks: Tasks, training: TrainingBackend, points: list[str]) -> None:
    changes = list(changing(points))
    for first, second in product(changes, repeat=2):
        run_id = killed_at(tasks, first)

        # A try that finds the job has less to do, and may be done before its point.
        tasks.run(run_id, kill_at=second)
        done = tasks.run(run_id)

        assert list(jobs_of(training, run_id)) == [done["job_id"]], (points[first], points[second])


def test_task_that_submits_the_next_attempt_and_is_killed_has_one_live_job(
    tasks: Tasks, training: TrainingBackend
) -> None:
    place, is_killed = 0, True
    while is_killed:
        run_id = tasks.new_run()
        first = tasks.run(run_id)["job_id"]
        training.cancel_job(first)
        until_state(training, first, JobState.CANCELLED)

        is_killed = tasks.run(run_id, kill_at=place) == {"killed": True}
        done = tasks.run(run_id)

        jobs = jobs_of(training, run_id)
        assert set(jobs) == {first, done["job_id"]}, place
        assert jobs[first] is JobState.CANCELLED
        assert jobs[done["job_id"]] in (JobState.QUEUED, JobState.PREPARING)
        place += 1
    assert place > 5


def test_service_killed_between_request_and_answer_is_asked_again_when_it_is_back(
    tasks: Tasks, training: TrainingBackend, service: ServiceProcess
) -> None:
    run_id = tasks.new_run()
    tasks.run(run_id, kill_at=len(tasks.run(tasks.new_run())["points"]) - 3)
    service.kill()
    service.start()

    done = tasks.run(run_id)

    assert list(jobs_of(training, run_id)) == [done["job_id"]]


def test_live_job_with_another_request_is_an_error_that_names_both(
    tasks: Tasks, training: TrainingBackend
) -> None:
    run_id = tasks.new_run()
    job_id = tasks.run(run_id)["job_id"]
    (before,) = [(job.labels or {})["airflow-request"] for job in [training.get_job(job_id)]]

    error = tasks.run(run_id, args="--epochs 2")["error"]

    assert job_id in error
    assert f"request {before}" in error
    assert "now asks for request" in error
    assert len(jobs_of(training, run_id)) == 1
