"""What the listener's threads import in a process that forks others, as the scheduler does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.live_service import run_service
from tests.support.speed import scaled

#: Each child imports what a task imports first; the alarm ends one that waits for ever.
FORKS_MEANWHILE = """
import os, signal, sys, time

from container_training import listener

listener._start(lambda: __import__("container_training.hooks.training"))
children, until = [], time.monotonic() + 3
while time.monotonic() < until:
    child = os.fork()
    if child == 0:
        signal.alarm(int(sys.argv[1]))
        import container_training.hooks.training
        os._exit(0)
    children.append(child)
    time.sleep(0.03)
print([status for child in children if (status := os.waitpid(child, 0)[1])])
"""
#: A thread reads a connection while a child is forked, which reads one, too; the alarm ends one that waits.
FORKS_DURING_A_READ = """
import os, signal, sys, threading
from container_training.hooks.training import TrainingHook

is_reading, may_end = threading.Event(), threading.Event()


def read(self, conn_id):
    is_reading.set()
    may_end.wait()


TrainingHook.get_connection = read
threading.Thread(target=lambda: TrainingHook()._connection).start()
is_reading.wait()
child = os.fork()
if child == 0:
    signal.alarm(int(sys.argv[1]))
    TrainingHook.get_connection = lambda self, conn_id: None
    TrainingHook()._connection
    os._exit(0)
print(os.waitpid(child, 0)[1])
may_end.set()
"""
#: Prints the modules that a thread imports while a fork would not wait for it.
CANCELS_A_JOB = """
import json, sys, threading

from container_training import listener
from container_training.hooks import importing
from training_api.job.job_id import TaskKey

unguarded = []


class Recorder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread().name == "cancel" and not importing._lock._is_owned():
            unguarded.append(name)


sys.meta_path.insert(0, Recorder())
key = TaskKey(dag_id="dag", task_id="task", run_id="run")
rendered = {"job_id": "123", "training_conn_id": "training_default", "cancel_on_kill": True}
thread = threading.Thread(
    name="cancel", target=listener._logged, args=(listener.cancel_job_of_wait, key, rendered, False)
)
thread.start()
thread.join()
print(json.dumps(unguarded))
"""
#: Prints which modules of this project the DAG files import in forks of a process with a job of Airflow's.
FORKS_FOR_FILES = """
import glob, json, os, sys
import importlib.util

from airflow.jobs.job import Job

if sys.argv[1] == "as a job":
    Job()
else:
    from airflow.listeners.listener import get_listener_manager
    from airflow.sdk.execution_time.task_runner import TaskRunnerMarker

    get_listener_manager().hook.on_starting(component=TaskRunnerMarker())
for path in sorted(glob.glob("dags/*.py")):
    child = os.fork()
    if child == 0:
        before = set(sys.modules)
        spec = importlib.util.spec_from_file_location("dag_file", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        new = sorted(set(sys.modules) - before)
        ours = [name for name in new if name.startswith(("container_training", "training_api"))]
        print(json.dumps([path, ours]), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def run(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=scaled(240),
        check=True,
    )


def test_a_worker_that_the_scheduler_forks_meanwhile_can_import_what_a_task_needs() -> None:
    done = run(FORKS_MEANWHILE, str(int(scaled(60))))

    assert done.stdout.splitlines()[-1] == "[]"


def test_a_worker_that_is_forked_while_a_connection_is_read_can_read_its_own() -> None:
    """The lock of ``functools.cached_property`` (until 3.11) is one for all instances."""
    done = run(FORKS_DURING_A_READ, str(int(scaled(60))))

    assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.parametrize("path", ["", "/vertex"])
def test_a_cancel_imports_nothing_that_a_fork_could_break_off(tmp_path: Path, path: str) -> None:
    google = {"conn_type": "google_cloud_platform", "extra": {"is_anonymous": True}}
    with run_service(tmp_path) as service:
        connection: dict[str, Any] = {
            "conn_type": "vertex_training" if path else "container_training",
            "host": f"{service.endpoint}{path}",
            "extra": {"project": "demo-project"},
        }
        done = run(
            CANCELS_A_JOB,
            AIRFLOW_CONN_TRAINING_DEFAULT=json.dumps(connection),
            AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT=json.dumps(google),
        )

    assert "123" in done.stderr + done.stdout  # it asked for the job, which is not there
    assert json.loads(done.stdout.splitlines()[-1]) == []


def imported_by_dag_files(how: str, folder: Path) -> dict[str, list[str]]:
    """Return what each example's file imports of this project in a fork of such a process."""
    done = run(FORKS_FOR_FILES, how, AIRFLOW_HOME=str(folder), AIRFLOW__CORE__UNIT_TEST_MODE="False")
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


@pytest.mark.extended
def test_what_forks_for_dag_files_has_imported_what_they_import(tmp_path: Path) -> None:
    assert len(found := imported_by_dag_files("as a job", tmp_path)) > 10
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.extended
def test_a_task_imports_only_what_its_own_dag_file_does(tmp_path: Path) -> None:
    assert all(imported_by_dag_files("as a task", tmp_path).values())
