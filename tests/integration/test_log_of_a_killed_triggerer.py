"""The log of a wait whose triggerer, a real process, is killed and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG

from container_engines.memory.engine import Behaviour
from container_training.sensors.training import TrainingJobSensor
from container_training.triggers.training import JobTrigger
from tests.integration.live_service import IMAGE, run_service
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.cluster import ReplicaId, ReplicaRole

pytestmark = pytest.mark.timeout(600)
LINES = tuple(f"epoch {number}" for number in range(20))
SECONDS = 240


@contextmanager
def triggerer(folder: Path, name: str) -> Iterator[None]:
    """Run Airflow's triggerer in processes of its own; they are killed at the end."""
    command = [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"]
    limits = {
        "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
    }
    with (folder / f"{name}.txt").open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | limits, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def defer(dag: DAG, trigger: JobTrigger) -> None:
    """Write a run whose task is deferred to ``trigger``."""
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import select

    with create_session() as session:
        serialized = SerializedDagModel.get_dag(dag.dag_id, session=session)
        assert serialized is not None
        serialized.create_dagrun(
            run_id="r",
            run_after=datetime.now(UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        session.flush()
        row = Trigger(*trigger.serialize())
        session.add(row)
        session.flush()
        task = session.scalars(select(TaskInstance).where(TaskInstance.dag_id == dag.dag_id)).one()
        task.state, task.trigger_id, task.try_number = TaskInstanceState.DEFERRED, row.id, 1
        task.next_method, task.next_kwargs = "execute_complete", {}


def test_a_triggerer_goes_on_where_a_killed_one_had_come_to(
    tmp_path: Path, register_dag: Callable[[DAG], DAG], monkeypatch: pytest.MonkeyPatch
) -> None:
    behaviour = Behaviour(run_seconds=10**9, lines=LINES)
    with run_service(tmp_path, behaviour) as service, TrainingClient(service.endpoint, "demo") as client:
        connection = {
            "conn_type": "container_training",
            "host": service.endpoint,
            "extra": {"project": "demo"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
        logs = tmp_path / "logs"
        monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(logs))
        config = ReplicaConfig(image_uri=IMAGE)
        training = TrainingInput(region="us-central1", scale_tier="BASIC", master_config=config)
        client.create_job(Job(job_id="killed_1", training_input=training))
        with DAG("killed_triggerer", schedule=None) as dag:
            TrainingJobSensor(task_id="wait", job_id="killed_1")
        deadline = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        trigger = JobTrigger(
            job_id="killed_1",
            until="finished",
            training_conn_id="training_default",
            deadline_at=deadline,
            stream_logs=True,
        )
        defer(register_dag(dag), trigger)

        def texts() -> list[str]:
            # Other tests have left deferred tasks in the same database, which the triggerer takes, too.
            own = logs / f"dag_id={dag.dag_id}"
            return [file.read_text() for file in sorted(own.rglob("*.trigger.*.log"))]

        with triggerer(tmp_path, "first"):
            wait_until(lambda: "epoch 19" in "".join(texts()), "all lines are shown", seconds=SECONDS)
        with triggerer(tmp_path, "second"):
            wait_until(lambda: len(texts()) == 2, "another triggerer has the wait", seconds=SECONDS)
            (launch,) = service.engine.launches()
            service.engine.end(launch.job_uid, ReplicaId(role=ReplicaRole.MASTER), 0)
            wait_until(lambda: "is SUCCEEDED" in "".join(texts()), "the wait is over", seconds=SECONDS)

        log = "".join(texts())
        shown = re.findall(r"master-replica-0: (epoch \d+)\"", log)
        assert sorted(shown) == sorted(LINES), log
        assert len(re.findall(r"job killed_1 is RUNNING", log)) == 1, log
