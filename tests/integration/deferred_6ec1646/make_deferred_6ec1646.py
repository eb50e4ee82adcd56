"""
Writes service.sql and airflow.json with the code of commit 6ec1646.

That commit's operators submit jobs to its service, and its sensors are deferred.
Airflow runs both; the rows of airflow.json are those of its database.
Run in a checkout of that commit:
``PYTHONPATH=.:plugins:tests/integration python make_deferred_6ec1646.py FOLDER``.
It cannot run with today's code.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCRATCH = Path(tempfile.mkdtemp())
os.environ |= {
    "AIRFLOW_HOME": str(SCRATCH),
    "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).with_name("before_the_move.py")),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__FERNET_KEY": "",
    "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-for-this-file-only-that-is-long-enough",
}

from airflow.dag_processing.bundles.manager import DagBundlesManager  # noqa: E402
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db  # noqa: E402
from airflow.models.dagrun import get_or_create_dagrun  # noqa: E402
from airflow.models.trigger import Trigger  # noqa: E402
from airflow.sdk.definitions.dag import _run_task  # noqa: E402
from airflow.serialization.serialized_objects import DagSerialization  # noqa: E402
from airflow.utils.db import initdb  # noqa: E402
from airflow.utils.session import create_session  # noqa: E402
from airflow.utils.types import DagRunTriggeredByType  # noqa: E402
from container_training.clients.training_api import (  # type: ignore[import-not-found]  # noqa: E402
    TrainingClient,
    job_log_filter,
)
from container_training.core.image_ref import parse_image_ref  # type: ignore[import-not-found]  # noqa: E402
from container_training.core.states import JobState  # type: ignore[import-not-found]  # noqa: E402
from live_service import LiveService, run_service, wait_until  # type: ignore[import-not-found]  # noqa: E402
from training_service.engine.memory_engine import (  # type: ignore[import-not-found]  # noqa: E402
    Behaviour,
    ScriptedReport,
)

from container_training.triggers.object_changes import ObjectChangeTrigger  # noqa: E402

DAG_ID, PROJECT = "before_the_move", "demo-project"
#: Name of a job -> what its containers do.
BEHAVIOURS = {
    "failing": Behaviour(run_seconds=1, exit_code=3),
    "running": Behaviour(run_seconds=10**9, lines=("epoch 1", "epoch 2")),
    "tuning": Behaviour(
        run_seconds=1, reports=(ScriptedReport(after_seconds=0, tag="accuracy", step=1, value=0.5),)
    ),
    "waiting": Behaviour(run_seconds=10**9),
}


class Before:
    """The Airflow and the service of commit 6ec1646."""

    def __init__(self, service: LiveService) -> None:
        self._service = service
        self._training = TrainingClient(service.endpoint, PROJECT)
        initdb()
        DagBundlesManager().sync_bundles_to_db()
        (bundle,) = DagBundlesManager().get_all_dag_bundles()
        bag = DagBag(
            os.environ["AIRFLOW__CORE__DAGS_FOLDER"], bundle_path=bundle.path, bundle_name=bundle.name
        )
        sync_bag_to_db(bag, bundle.name, None)
        self._dag = bag.dags[DAG_ID]
        now = datetime.now(UTC)
        with create_session() as session:
            self._run = get_or_create_dagrun(
                dag=DagSerialization.deserialize_dag(DagSerialization.serialize_dag(self._dag)),
                run_id="manual__1",
                logical_date=now,
                data_interval=(now, now),
                run_after=now,
                conf={},
                triggered_by=DagRunTriggeredByType.TEST,
                triggering_user_name=None,
                start_date=now,
                session=session,
            )

    def run(self, task_id: str, state: str) -> None:
        """Run a task, which must be in ``state`` afterwards."""
        (task,) = [task for task in self._run.get_task_instances() if task.task_id == task_id]
        _run_task(ti=task, task=self._dag.task_dict[task_id])
        assert task.state == state, f"{task_id} is {task.state}"

    def submit(self, name: str, state: JobState) -> None:
        """Submit a job, and wait until it is in ``state``."""
        self._service.engine.now = datetime.now(UTC)
        self._service.engine.add_image(parse_image_ref(f"registry.test/{PROJECT}/{name}:1"), BEHAVIOURS[name])
        self.run(f"submit_{name}", "success")
        self.wait_for(name, state)

    def wait_for(self, name: str, state: JobState) -> None:
        """Return once the job is in ``state``."""
        wait_until(lambda: self._training.get_job(name).state is state)

    def wait_for_line(self, name: str, line: str) -> None:
        """Return once the service has stored a line of the job's log."""
        filter_ = job_log_filter(name, None)
        wait_until(
            lambda: any(
                line == entry.text_payload for entry in self._training.list_log_entries(filter_).entries or []
            )
        )


def defer_tasks(service: LiveService) -> None:
    """Run jobs and tasks until one is in each state that the test needs."""
    before = Before(service)
    before.submit("failing", JobState.RUNNING)
    before.run("failing_ends", "deferred")
    before.submit("running", JobState.RUNNING)
    before.wait_for_line("running", "epoch 2")
    before.run("running_ends", "deferred")
    # The job ends after the triggerer was stopped.
    service.engine.advance(1)
    before.wait_for("failing", JobState.FAILED)
    before.submit("tuning", JobState.RUNNING)
    wait_until(lambda: any(launch.trial_id == "1" for launch in service.engine.launches()))
    service.engine.advance(1)
    wait_until(lambda: any(launch.trial_id == "2" for launch in service.engine.launches()))
    before.run("tuning_ends", "deferred")
    before.submit("waiting", JobState.QUEUED)
    before.run("waiting_ends", "deferred")
    before.run("waiting_starts", "deferred")


def airflow_rows() -> dict[str, Any]:
    """Return what Airflow's database has of the waits, and of the trigger of an asset."""
    with closing(sqlite3.connect(SCRATCH / "airflow.db")) as database:
        database.row_factory = sqlite3.Row
        deferred = database.execute(
            """SELECT task_id, next_method, next_kwargs, trigger_timeout, classpath, kwargs
               FROM task_instance JOIN trigger ON trigger.id = trigger_id
               WHERE state = 'deferred' ORDER BY task_id"""
        ).fetchall()
    watcher = Trigger.from_object(
        ObjectChangeTrigger(uri="{job_bucket}/datasets/digits/", poll_interval_seconds=10)
    )
    return {
        "made_by": "make_deferred_6ec1646.py with the code of commit 6ec1646",
        "deferred": {row["task_id"]: stored(row) for row in deferred},
        "asset_trigger": {"classpath": watcher.classpath, "kwargs": json.loads(watcher.encrypted_kwargs)},
    }


def stored(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of one task and its trigger; those in JSON are parsed."""
    return {
        "next_method": row["next_method"],
        "next_kwargs": json.loads(row["next_kwargs"]),
        "trigger_timeout": row["trigger_timeout"],
        "trigger": {"classpath": row["classpath"], "kwargs": json.loads(row["kwargs"])},
    }


def main(folder: Path) -> None:
    """Write both files."""
    with run_service(SCRATCH, max_replicas=2) as service:
        host, port = service.endpoint.removeprefix("http://").split(":")
        connection = {
            "conn_type": "container_training",
            "host": host,
            "port": int(port),
            "extra": {"project": PROJECT, "prices": {"n1-standard-4": 0.0001}, "currency": "EUR"},
        }
        os.environ["AIRFLOW_CONN_TRAINING_DEFAULT"] = json.dumps(connection)
        defer_tasks(service)
    (folder / "airflow.json").write_text(json.dumps(airflow_rows(), indent=1) + "\n", "utf-8")
    with (folder / "service.sql").open("w", encoding="utf-8") as file:
        file.write("-- Made by make_deferred_6ec1646.py with the code of commit 6ec1646.\n")
        for statement in sqlite3.connect(SCRATCH / "jobs.db").iterdump():
            file.writelines(f"{line.rstrip()}\n" for line in statement.splitlines())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
