"""
A task that the code of commit 6ec1646 deferred ends as a task of today does.

Its rows of Airflow's database and the service's database were written by the code of that commit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.module_loading import import_string

from container_engines.base import ReplicaLaunch
from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.integration.deferred_tasks import Airflow, LogLines, Outcome
from tests.integration.live_service import run_service
from tests.support.waiting import wait_until, wait_until_async
from training_api.clients.log_cursor import LogCursor
from training_api.clients.training import TrainingClient
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import parse_image_ref
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt

#: Made by make_deferred_6ec1646.py.
FOLDER = Path(__file__).with_name("deferred_6ec1646")
STORED: dict[str, Any] = json.loads((FOLDER / "airflow.json").read_text("utf-8"))
OLD_RUN, NEW_RUN = "manual__1", "manual__2"
MASTER = ReplicaId(role=ReplicaRole.MASTER)
#: What containers do after the move: they go on.
BEHAVIOURS = {
    "running": Behaviour(run_seconds=10**9, lines=("epoch 1", "epoch 2", "epoch 3")),
    "tuning": Behaviour(run_seconds=10**9),
    "waiting": Behaviour(run_seconds=10**9),
}
#: The old service's containers that run, in the order of their start.
CONTAINERS = """SELECT jobs.uid, coalesce(json_extract(trial, '$.job_id'), job_id),
coalesce(json_extract(trial, '$.number'), ''), images, spans.started_us
FROM jobs JOIN spans ON job_uid = uid AND kind = 'RUN' WHERE state = 'RUNNING' ORDER BY spans.started_us"""


def to_time(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


class OldJobs:
    """The database of the old service, and an engine on which its containers run."""

    client: TrainingClient

    def __init__(self, database: Path) -> None:
        self.engine = MemoryEngine()
        for name, behaviour in BEHAVIOURS.items():
            self.engine.add_image(parse_image_ref(f"registry.test/demo-project/{name}:1"), behaviour)
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript((FOLDER / "service.sql").read_text("utf-8"))
            for uid, job_id, trial_id, images, started_us in connection.execute(CONTAINERS):
                self._start(uid, job_id, str(trial_id), json.loads(images), to_time(started_us))
            (newest_us,) = connection.execute("SELECT max(received_us) FROM log_entries").fetchone()
        self.moved_at = to_time(newest_us) + timedelta(minutes=10)
        self.engine.now = self.moved_at

    def _start(self, uid: str, job_id: str, trial_id: str, images: dict[str, str], at: datetime) -> None:
        self.engine.now = at
        launch = ReplicaLaunch(
            job_uid=uid,
            job_id=job_id,
            project="demo-project",
            replica=MASTER,
            attempt=Attempt(),
            image_id=next(iter(images.values())),
            host_name="master",
            command=(),
            args=(),
            environment={},
            resources=Resources(cpus=1, memory_bytes=2**30),
            pids_limit=100,
            trial_id=trial_id,
        )
        self.engine.start_replica(launch)

    def log(self, job_id: str) -> list[str | None]:
        """Return what the job has printed, as far as the service has it."""
        page = self.client.list_log_entries(LogCursor().begin(job_id, task_name=MASTER.task_name).filter)
        return [entry.text_payload for entry in page.entries or []]

    def end(self, job_id: str) -> None:
        """Let the job's container, or that of its trial, end well."""
        for launch in self.engine.launches():
            if launch.job_id == job_id:
                self.engine.end(launch.job_uid, MASTER, 0)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OldJobs]:
    """The old jobs under today's service, ten minutes after the old one's last act."""
    jobs = OldJobs(tmp_path / "jobs.db")
    with (
        time_machine.travel(jobs.moved_at, tick=True),
        run_service(tmp_path, engine=jobs.engine, max_replicas=2) as service,
        TrainingClient(service.endpoint, "demo-project") as jobs.client,
    ):
        connection = {
            "conn_type": "container_training",
            "host": service.endpoint,
            "extra": {"project": "demo-project", "prices": {"n1-standard-4": 0.0001}, "currency": "EUR"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
        yield jobs


@pytest.fixture(scope="module")
def deferring(register_dag: Callable[[DAG], DAG]) -> Airflow:
    """An Airflow with two runs of the DAG: the old one, and one that begins after the move."""
    bag = DagBag(FOLDER / "before_the_move.py", bundle_path=FOLDER)
    assert not bag.import_errors
    deferring = Airflow(register_dag(bag.dags["before_the_move"]))  # type: ignore[arg-type]
    for run_id in (OLD_RUN, NEW_RUN):
        deferring.begin_run(run_id, {f"submit_{name}": name for name in ("failing", *BEHAVIOURS)})
    return deferring


def both_outcomes(
    deferring: Airflow, task_id: str, act: Callable[[LogLines], Awaitable[None]]
) -> tuple[Outcome, Outcome]:
    """Let the old task go on, and beside it the same task that began today; return how both end."""
    deferring.restore(OLD_RUN, task_id, STORED["deferred"][task_id])
    new = deferring.run(NEW_RUN, task_id)
    deferred = [OLD_RUN, *([NEW_RUN] if new.state == "deferred" else [])]
    deferring.wait_in_triggerer(task_id, deferred, act)
    outcomes = {NEW_RUN: new} | {run_id: deferring.run(run_id, task_id) for run_id in deferred}
    return outcomes[OLD_RUN], outcomes[NEW_RUN]


async def nothing(lines: LogLines) -> None:
    """Let the triggers fire by themselves."""


def test_a_wait_for_a_running_job_shows_its_new_lines_and_ends_with_it(
    deferring: Airflow, jobs: OldJobs
) -> None:
    shown: list[str] = []

    async def end(lines: LogLines) -> None:
        await wait_until_async(lambda: lines.of("epoch"), "the old wait shows a line of the log")
        shown.extend(lines.of("epoch"))
        jobs.end("running")

    # The task of today then shows it before it is deferred, so that only the old one does so afterwards.
    wait_until(lambda: "epoch 3" in jobs.log("running"), "the service has the new line")
    old, new = both_outcomes(deferring, "running_ends", end)

    assert old == new
    assert shown == ["master-replica-0: epoch 3"]
    assert (old.state, old.xcoms["return_value"]) == ("success", "SUCCEEDED")


@pytest.mark.extended
def test_a_wait_for_the_end_of_a_job_that_is_queued_sees_it_run_and_end(
    deferring: Airflow, jobs: OldJobs
) -> None:
    async def make_room_and_end(lines: LogLines) -> None:
        jobs.end("running")
        await wait_until_async(lambda: len(lines.of("job waiting is RUNNING")) == 2, "both see it run")
        jobs.end("waiting")

    old, new = both_outcomes(deferring, "waiting_ends", make_room_and_end)

    assert old == new
    assert (old.state, old.xcoms["return_value"]) == ("success", "SUCCEEDED")


@pytest.mark.extended
def test_a_wait_for_room_ends_when_there_is_room(deferring: Airflow, jobs: OldJobs) -> None:
    async def make_room(lines: LogLines) -> None:
        jobs.end("running")

    old, new = both_outcomes(deferring, "waiting_starts", make_room)

    assert old.state == new.state == "success"
    assert old.xcoms["return_value"] in ("PREPARING", "RUNNING")


def test_a_wait_for_a_tuning_job_returns_what_its_trials_have_found(
    deferring: Airflow, jobs: OldJobs
) -> None:
    async def end_trial(lines: LogLines) -> None:
        jobs.end("tuning")

    old, new = both_outcomes(deferring, "tuning_ends", end_trial)

    assert old == new
    assert (old.state, old.xcoms["return_value"]) == ("success", "SUCCEEDED")
    assert old.xcoms["study"]["completed"] == 2
    assert old.xcoms["study"]["best"]["trial_id"] == "1", "it ended before the move"


@pytest.mark.extended
def test_a_wait_whose_job_failed_meanwhile_fails_with_its_message(deferring: Airflow, jobs: OldJobs) -> None:
    old, new = both_outcomes(deferring, "failing_ends", nothing)

    assert old == new
    assert old.state == "failed"
    assert old.error == (
        "JobFailed: job 'failing' ended as FAILED: The replica master 0 exited with a non-zero status of 3."
    )


def test_the_trigger_of_an_asset_is_made_from_its_row_and_stays_the_same() -> None:
    row = STORED["asset_trigger"]

    assert import_string(row["classpath"])(**row["kwargs"]).serialize() == (row["classpath"], row["kwargs"])
