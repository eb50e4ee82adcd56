"""A function of a DAG file as a training job."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from container_training.decorators.training_job import training_job_task
from tests.support.fakes.fake_service import FakeService

IMAGE = "127.0.0.1:5000/demo/torch:1"


def make_task(function: Any, *args: Any, **kwargs: Any) -> Any:
    with DAG("decorated", schedule=None):
        called = training_job_task(
            function, image=IMAGE, job_dir="gs://bucket/jobs/{job_id}", deferrable=True
        )(*args, **kwargs)
    called.operator._sleep = lambda _: None
    return called.operator


def submitted(service: FakeService, context: Any, operator: Any) -> list[str]:
    """Return the command and arguments of the job that the task submits."""
    context["ti"].xcom_pull = lambda **_: None
    with pytest.raises(TaskDeferred):
        operator.execute(context)
    (job,) = service.jobs.values()
    config = job.training_input.master_config  # type: ignore[union-attr]
    assert config is not None
    return [*(config.container_command or ()), *(config.container_args or ())]


class Store(HTTPServer):
    """An object store that takes uploads, after it has refused the first ``failures``."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Uploads)
        self.failures = failures
        self.objects: dict[str, Any] = {}
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class _Uploads(BaseHTTPRequestHandler):
    server: Store

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.failures:
            self.server.failures -= 1
            self.send_response(503)
        else:
            self.server.objects[self.path] = json.loads(body)
            self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def run(program: list[str], store: Store) -> subprocess.CompletedProcess[str]:
    """Run a job's program as its container does."""
    return subprocess.run(
        [sys.executable, *program[1:], "--job-dir", "gs://bucket/jobs/1"],
        env={"STORAGE_EMULATOR_HOST": f"127.0.0.1:{store.server_port}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("failures", [0, 1])
def test_the_function_runs_with_its_arguments_and_its_value_is_the_metrics(
    service: FakeService, context: Any, failures: int
) -> None:
    def train(epochs: int, *, rate: float = 0.1, job_dir: str = "") -> dict[str, Any]:
        import math

        return {"epochs": epochs, "rate": rate, "root": math.sqrt(16), "job_dir": job_dir}

    program = submitted(service, context, make_task(train, 3, rate=0.5))
    store = Store(failures)
    done = run(program, store)

    assert done.returncode == 0, done.stderr
    metrics = {"epochs": 3, "rate": 0.5, "root": 4.0, "job_dir": "gs://bucket/jobs/1"}
    path = "/upload/storage/v1/b/bucket/o?uploadType=media&name=jobs%2F1%2Fmetrics.json"
    assert store.objects == {path: metrics}
    assert f"metrics: {json.dumps(metrics)}" in done.stdout


def test_a_function_that_returns_no_metrics_fails_its_job(service: FakeService, context: Any) -> None:
    def train() -> Any:
        return 0.5

    store = Store()
    done = run(submitted(service, context, make_task(train)), store)

    assert done.returncode == 1
    assert "train must return its metrics, a dict like {'accuracy': 0.97}; it returned 0.5" in done.stderr
    assert store.objects == {}


def test_a_value_that_is_no_json_is_refused_before_anything_is_sent(
    service: FakeService, context: Any
) -> None:
    def train(data: Any) -> dict[str, Any]:
        return {"size": len(data)}

    with pytest.raises(AirflowFailException, match="InvalidArgument: the arguments of train travel as JSON"):
        make_task(train, {1, 2}).execute(context)

    assert service.requests == []


def test_arguments_that_are_too_long_are_refused(service: FakeService, context: Any) -> None:
    def train(data: Any) -> dict[str, Any]:
        return {"size": len(data)}

    with pytest.raises(AirflowFailException, match="train and its arguments must be at most 131071 bytes"):
        make_task(train, "x" * 200_000).execute(context)


def test_airflow_knows_the_decorator_by_its_name() -> None:
    with DAG("known", schedule=None):

        @task.training_job(image=IMAGE)
        def train(epochs: int) -> dict[str, Any]:
            return {"epochs": epochs}

        operator = train(3).operator

    assert operator.wait_for_completion is True
    assert operator.default_job_dir == (
        "{{ conn.get('training_default').extra_dejson.get('job_bucket', '') }}/{job_id}"
    )
