"""
A task whose worker was killed ends its work.

One that never had a worker ignores its parent.
"""

from __future__ import annotations

import threading
from unittest import mock

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder

from container_training.runtime import supervision
from container_training.runtime.supervision import WorkerWatch
from tests.support.fresh_airflow import FreshAirflow
from tests.support.speed import scaled

#: A worker that starts a task, and lives until it is killed; prints what the task says until its end.
WORKER_AND_TASK = """
import json, os, signal, time
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder
from container_training.runtime.supervision import WorkerWatch

reading, writing = os.pipe()

def end():
    os.write(writing, b"the worker is gone")
    os._exit(0)

def task():
    task_runner.SUPERVISOR_COMMS = CommsDecoder.__new__(CommsDecoder)
    watch = WorkerWatch()
    watch.call_when_alone(end)
    os.write(writing, b"begun")
    time.sleep(60)
    os._exit(0)

worker = os.fork()
if not worker:
    if not os.fork():
        task()
    time.sleep(60)
    os._exit(0)
os.close(writing)
said = [os.read(reading, 100).decode()]
os.kill(worker, signal.SIGKILL)
os.waitpid(worker, 0)
said.append(os.read(reading, 100).decode())
print(json.dumps(said))
"""


def test_a_task_notices_that_its_worker_was_killed(fresh_airflow: FreshAirflow) -> None:
    assert fresh_airflow.run(WORKER_AND_TASK) == ["begun", "the worker is gone"]


@pytest.mark.parametrize("has_worker", [True, False])
def test_without_a_worker_nothing_is_watched(monkeypatch: pytest.MonkeyPatch, has_worker: bool) -> None:
    comms = mock.Mock(spec=CommsDecoder) if has_worker else mock.Mock()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    monkeypatch.setattr(supervision, "_LOOK_SECONDS", 0.01)
    watch = WorkerWatch()
    called, threads = threading.Event(), set(threading.enumerate())
    assert not watch.is_alone

    monkeypatch.setattr(supervision.os, "getppid", lambda: 0)
    watch.call_when_alone(called.set)

    assert watch.is_alone is has_worker
    if has_worker:
        assert called.wait(scaled(60))
    else:
        assert not set(threading.enumerate()) - threads, "nothing could call it"
