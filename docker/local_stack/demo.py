"""``make demo``: from a bare machine to the result of a job, under the real scheduler."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from local_stack.errors import LocalStackError
from local_stack.parts.airflow import passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.settings import ALL_PARTS
from local_stack.stack import LocalStack

DAG_ID = "train_digits"
COLLECT_TASK_ID = "train.collect"
POLL_SECONDS = 0.5
PARSE_TIMEOUT_SECONDS = 60.0
RUN_TIMEOUT_SECONDS = 1800.0
LOG_LINES = 40

_ENDED = frozenset({"success", "failed"})
_SKIPPED_BEFORE_START = frozenset({None, "scheduled", "queued", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """One task instance as the demo shows it; times are in seconds since the run began."""

    name: str
    state: str
    elapsed_seconds: float | None

    def line(self) -> str:
        """Return what a person reads."""
        took = f" after {self.elapsed_seconds:.1f} s" if self.elapsed_seconds is not None else ""
        return f"  {self.name}: {self.state}{took}"


def run_demo(stack: LocalStack) -> int:
    """
    Start everything, run the DAG once, and print its result as one line of JSON.

    The stack stays up.

    :return: exit status: 0 if the run succeeded.
    :raises LocalStackError: a part does not come up, or the DAG cannot be run.
    """
    stack.up(ALL_PARTS)
    settings = stack.settings
    with AirflowApi(settings.airflow_url, ADMIN, passwords_file(settings)) as api:
        _wait_for_dag(api, settings.log_dir / "airflow-dag-processor.log")
        api.unpause(DAG_ID)
        run_id = api.trigger(DAG_ID)
        print(f"Airflow's UI: {settings.airflow_url}/dags/{DAG_ID}/runs/{run_id}")
        print(f"  log in as {ADMIN!r}; the password is in {passwords_file(settings)}")
        print(f"run {run_id} of {DAG_ID}:", flush=True)
        state = _follow(api, run_id)
        if state != "success":
            _print_failures(api, run_id)
        collected = api.xcom(DAG_ID, run_id, COLLECT_TASK_ID)
    found = collected if isinstance(collected, dict) else {}
    result = demo_result(run_id, state, found, backend=settings.backend)
    print(json.dumps(result))
    return 0 if result["state"] == "SUCCEEDED" else 1


def demo_result(run_id: str, run_state: str, collected: Mapping[str, Any], *, backend: str) -> dict[str, Any]:
    """
    Return what the last line of the demo says. Pure.

    :param run_state: state of the DAG run, in Airflow's words.
    :param collected: what the collect task returned; empty if it did not get that far.
    :param backend: by which API the job was submitted.
    """
    is_success = run_state == "success" and collected.get("state") == "SUCCEEDED"
    return {
        "dag_run": run_id,
        "state": "SUCCEEDED" if is_success else "FAILED",
        "backend": str(backend),
        "job_id": collected.get("job_id"),
        "image": collected.get("image"),
        "metrics": collected.get("metrics") or {},
        "model_uri": collected.get("model_uri"),
        "seconds": collected.get("seconds") or {},
    }


def task_progress(task: Mapping[str, Any]) -> TaskProgress | None:
    """
    Return what to show of a task instance, or None while there is nothing to show.

    :param task: as Airflow's REST API describes it.
    """
    state = task.get("state")
    if state in _SKIPPED_BEFORE_START:
        return None
    name = task["task_id"] if task.get("map_index", -1) < 0 else f"{task['task_id']}[{task['map_index']}]"
    if task.get("try_number", 1) > 1:
        name += f" (attempt {task['try_number']})"
    words = {"deferred": "waiting for the job", "running": "started", "success": "finished"}
    return TaskProgress(
        name=name, state=words.get(str(state), str(state)), elapsed_seconds=_elapsed_seconds(task)
    )


def _elapsed_seconds(task: Mapping[str, Any]) -> float | None:
    started, ended = task.get("start_date"), task.get("end_date")
    if not started or not ended or task.get("state") in {"running", "deferred"}:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()


def _wait_for_dag(api: AirflowApi, log: Path) -> None:
    deadline = time.monotonic() + PARSE_TIMEOUT_SECONDS
    while not api.has_dag(DAG_ID):
        broken = {file: trace for file, trace in api.import_errors().items() if DAG_ID in file}
        if broken:
            file, trace = next(iter(broken.items()))
            raise LocalStackError(f"the DAG file {file} cannot be imported:\n{trace}")
        if time.monotonic() > deadline:
            raise LocalStackError(
                f"Airflow has not parsed the DAG {DAG_ID!r} after {PARSE_TIMEOUT_SECONDS:.0f} s; see {log}"
            )
        time.sleep(POLL_SECONDS)


def _follow(api: AirflowApi, run_id: str) -> str:
    """Print each change of each task until the run has ended; return its last state."""
    shown: dict[str, str] = {}
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    while True:
        # The state first: the tasks of a run that has ended do not change any more.
        state = api.run_state(DAG_ID, run_id)
        for task in api.task_instances(DAG_ID, run_id):
            progress = task_progress(task)
            if progress is not None and shown.get(progress.name) != progress.state:
                shown[progress.name] = progress.state
                print(progress.line(), flush=True)
        if state in _ENDED:
            return state
        if time.monotonic() > deadline:
            print(f"the run has not ended after {RUN_TIMEOUT_SECONDS:.0f} s", flush=True)
            return "failed"
        time.sleep(POLL_SECONDS)


def _print_failures(api: AirflowApi, run_id: str) -> None:
    for task in api.task_instances(DAG_ID, run_id):
        if task.get("state") != "failed":
            continue
        print(f"the task {task['task_id']} failed; the end of its log:")
        try:
            lines = api.log_lines(
                DAG_ID, run_id, task["task_id"], task.get("try_number", 1), task.get("map_index", -1)
            )
        except LocalStackError as error:  # the result below matters more than the log
            print(f"  not available: {error}")
            continue
        for line in lines[-LOG_LINES:]:
            print(f"  {line}")
