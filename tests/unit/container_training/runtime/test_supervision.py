"""
A task whose worker was killed ends its work.

One that never had a worker ignores its parent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder

from container_training.runtime import supervision
from container_training.runtime.supervision import WorkerWatch
from tests.support.speed import scaled
from tests.support.waiting import wait_until

#: Stands for a worker: starts a task, and lives until it is killed.
WORKER = "import subprocess, sys, time; subprocess.Popen([sys.executable, *sys.argv[1:]]); time.sleep(60)"
TASK = """
import pathlib, sys, time
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder
from container_training.runtime.supervision import WorkerWatch
task_runner.SUPERVISOR_COMMS = CommsDecoder.__new__(CommsDecoder)
watch = WorkerWatch()
watch.call_when_alone(pathlib.Path(sys.argv[2]).touch)
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


def test_a_task_notices_that_its_worker_was_killed(tmp_path: Path) -> None:
    begun, noticed = tmp_path / "begun", tmp_path / "noticed"
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, "-c", TASK, str(begun), str(noticed)], start_new_session=True
    )
    try:
        wait_until(begun.exists, "the task has begun")
        assert not noticed.exists()

        worker.kill()

        wait_until(noticed.exists, "the task has noticed")
    finally:
        os.killpg(worker.pid, 9)
        worker.wait()


@pytest.mark.parametrize("has_worker", [True, False])
def test_without_a_worker_nothing_is_watched(monkeypatch: pytest.MonkeyPatch, has_worker: bool) -> None:
    comms = mock.Mock(spec=CommsDecoder) if has_worker else mock.Mock()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    monkeypatch.setattr(supervision, "_LOOK_SECONDS", 0.01)
    watch = WorkerWatch()
    called, threads = threading.Event(), set(threading.enumerate())
    assert not watch.is_alone

    monkeypatch.setattr(supervision.os, "getppid", lambda: 1)
    watch.call_when_alone(called.set)

    assert watch.is_alone is has_worker
    if has_worker:
        assert called.wait(scaled(60))
    else:
        assert not set(threading.enumerate()) - threads, "nothing could call it"
