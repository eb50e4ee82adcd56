"""
How much longer is a warm run of the DAG than the same work by hand?

By hand: ``docker build``, ``docker run`` with one epoch, ``docker push`` and ``docker run`` with the job's
arguments, one after the other, everything cached. It takes turns with the DAG in its two forms: with a task
for each state of the job, and with one task from the submission to the results.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Figure, median_figure
from benchmarks.support.by_hand import time_by_hand
from local_stack.demo import DAG_ID
from local_stack.parts.airflow import passwords_file
from local_stack.parts.base_image import BaseImage
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.settings import REPOSITORY_ROOT
from local_stack.stack import LocalStack

ROUNDS = 3
#: How much longer the DAG may take, in seconds.
MAX_OVERHEAD_SECONDS = 12.0
MAX_ONE_TASK_OVERHEAD_SECONDS = 8.0
_ONE_TASK_DAG_ID = f"{DAG_ID}_in_one_task"
_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
_CONTEXT = REPOSITORY_ROOT / "docker" / "trainers" / "digits"
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 300.0


def add_dags() -> None:
    """Give every stack that is made afterwards, by ``make`` too, this benchmark's DAG."""
    bundles = [
        {"name": "dags-folder", "classpath": _BUNDLE, "kwargs": {}},
        {"name": "benchmarks", "classpath": _BUNDLE, "kwargs": {"path": str(Path(__file__).parent / "dags")}},
    ]
    more = json.loads(os.environ.get("LOCAL_STACK_AIRFLOW_ENVIRONMENT", "{}"))
    more["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = json.dumps(bundles)
    os.environ["LOCAL_STACK_AIRFLOW_ENVIRONMENT"] = json.dumps(more)


def measure(stack: LocalStack) -> list[Figure]:
    """Return the medians and their differences; the demo must have run once."""
    by_hand: list[float] = []
    runs: dict[str, list[float]] = {DAG_ID: [], _ONE_TASK_DAG_ID: []}
    with AirflowApi(stack.settings.airflow_url, ADMIN, passwords_file(stack.settings)) as api:
        _wait_until(lambda: api.has_dag(_ONE_TASK_DAG_ID), "the DAG of one task is not parsed")
        api.unpause(_ONE_TASK_DAG_ID)
        for dag_id in runs:
            _time_run(api, dag_id)
        _time_by_hand(stack)
        for _ in range(ROUNDS):
            by_hand.append(_time_by_hand(stack))
            for dag_id, seconds in runs.items():
                seconds.append(_time_run(api, dag_id))
    return [
        median_figure("the same by hand", by_hand),
        *_figures("DAG train_digits, warm", runs[DAG_ID], by_hand, MAX_OVERHEAD_SECONDS),
        *_figures('with states="one", warm', runs[_ONE_TASK_DAG_ID], by_hand, MAX_ONE_TASK_OVERHEAD_SECONDS),
    ]


def _figures(name: str, runs: list[float], by_hand: list[float], limit: float) -> list[Figure]:
    overhead = [run - hand for run, hand in zip(runs, by_hand, strict=True)]
    return [
        median_figure(name, runs),
        median_figure("longer by", overhead, limit=limit),
        median_figure("ratio", [run / hand for run, hand in zip(runs, by_hand, strict=True)], unit="x"),
    ]


def _wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    started = time.perf_counter()
    while not is_so():
        if time.perf_counter() - started > _PATIENCE_SECONDS:
            raise RuntimeError(f"{otherwise} after {_PATIENCE_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _time_run(api: AirflowApi, dag_id: str) -> float:
    """Return the seconds from the trigger until a reader sees the run's end."""
    started = time.perf_counter()
    run_id = api.trigger(dag_id)
    _wait_until(lambda: api.run_state(dag_id, run_id) in ("success", "failed"), f"the end of run {run_id}")
    seconds = time.perf_counter() - started
    if api.run_state(dag_id, run_id) != "success":
        raise RuntimeError(f"run {run_id} failed; see the task logs")
    return seconds


def _time_by_hand(stack: LocalStack) -> float:
    settings = stack.settings
    image = f"{settings.image_prefix}/digits:by-hand"
    job_dir = f"{settings.job_bucket}/by-hand/{uuid.uuid4().hex[:8]}"
    reach = ["--add-host", "host.docker.internal:host-gateway"]
    for name, value in settings.container_environment.items():
        reach += ["--env", f"{name}={value}"]
    base = f"BASE_IMAGE={BaseImage.name_of(settings)}"
    data = f"{settings.job_bucket}/data/digits.csv"
    commands = [
        ["docker", "build", "--quiet", "--build-arg", base, "--tag", image, str(_CONTEXT)],
        ["docker", "run", "--rm", image, "--epochs", "1"],
        ["docker", "push", "--quiet", image],
        ["docker", "run", "--rm", *reach, image, "--data", data, "--job-dir", job_dir],
    ]
    return time_by_hand(settings, commands)
