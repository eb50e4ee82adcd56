"""One DAG run under the real scheduler, as a test follows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from local_stack.errors import LocalStackError
from local_stack.people.airflow_api import AirflowApi
from tests.support import waiting

#: What Airflow's own parts do may take minutes: several processes start for each task.
PATIENCE_SECONDS = 240.0
_FAILS = "Task failed with exception"
_TRIGGER_STARTS = re.compile(r"trigger \S+ \(ID \d+\) starting")


def wait_until(
    condition: Callable[[], object], what: str, *, patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait for something that Airflow does."""
    waiting.wait_until(condition, what, seconds=patience_seconds, poll_seconds=0.2)


@dataclass(frozen=True)
class Run:
    """A DAG run, and what a person can do with it."""

    api: AirflowApi
    dag_id: str
    run_id: str

    @classmethod
    def start(cls, api: AirflowApi, dag_id: str, conf: Mapping[str, Any] | None = None) -> Self:
        """Wait until the DAG is parsed, wake it, and run it."""
        wait_until(lambda: api.has_dag(dag_id), f"DAG {dag_id} is parsed")
        api.unpause(dag_id)
        return cls(api, dag_id, api.trigger(dag_id, conf))

    def wait_for(self, *states: str, patience_seconds: float = PATIENCE_SECONDS) -> str:
        """Return the run's state once it is one of ``states``."""
        wait_until(
            lambda: self.api.run_state(self.dag_id, self.run_id) in states,
            f"run is {states}",
            patience_seconds=patience_seconds,
        )
        return self.api.run_state(self.dag_id, self.run_id)

    def wait_for_end(self, *, patience_seconds: float = PATIENCE_SECONDS) -> str:
        """Return how the run ended."""
        return self.wait_for("success", "failed", patience_seconds=patience_seconds)

    def wait_for_success(self, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """
        Return once the run has ended well.

        :raises AssertionError: it has not. The first line, of which alone a summary consists, names each task
            that is not done, with the end of its log if it failed.
        """
        try:
            assert self.wait_for_end(patience_seconds=patience_seconds) == "success", "failed"
        except AssertionError as error:
            why = str(error).partition("\n")[0]
            undone = {task: state for task, state in self.states().items() if state != "success"}
            # The failed ones first: they are why the others are not done.
            ends = [
                f"{task}: {state} {waiting.end_of(self.log_if_any(task).splitlines())}"
                for task, state in undone.items()
                if state in ("failed", "up_for_retry")
            ]
            raise AssertionError(f"run of {self.dag_id}: {why}; {'; '.join(ends)}; {undone}") from error

    def states(self) -> dict[str, str]:
        """Return the state of each task."""
        return {task["task_id"]: task["state"] for task in self.api.task_instances(self.dag_id, self.run_id)}

    def tries(self, task_id: str) -> int:
        """Return the number of the task's newest try."""
        (found,) = [
            task for task in self.api.task_instances(self.dag_id, self.run_id) if task["task_id"] == task_id
        ]
        return int(found["try_number"])

    def wait_for_task(self, task_id: str, state: str) -> None:
        """Return once the task is in ``state``."""
        wait_until(lambda: self.states().get(task_id) == state, f"task {task_id} is {state}")

    def wait_until_watched(self, task_id: str) -> None:
        """
        Return once the triggerer runs the newest try's trigger.

        Of one that is marked or cleared in the second before, the API server looks after the job, and the
        task's log says nothing.
        """
        wait_until(
            lambda: _TRIGGER_STARTS.search(self.log(task_id)) is not None,
            f"the triggerer has {task_id}",
        )

    def log(self, task_id: str, try_number: int | None = None) -> str:
        """Return the log of one try; default: the newest one."""
        number = try_number or max(self.tries(task_id), 1)
        return "\n".join(self.api.log_lines(self.dag_id, self.run_id, task_id, number))

    def failures(self, task_id: str) -> int:
        """
        Return in how many tries the task itself has failed.

        Airflow's scheduler fails a wait that it resumes at the wrong moment (apache/airflow#72716), and tries
        it again; of such a try it sometimes has no log.
        """
        return sum(_FAILS in self.log_if_any(task_id, number) for number in range(1, self.tries(task_id) + 1))

    def log_if_any(self, task_id: str, try_number: int | None = None) -> str:
        """Return the log of a try, of the last one by default; an empty text if there is none."""
        try:
            return self.log(task_id, try_number)
        except LocalStackError:
            return ""

    def xcom(self, task_id: str, key: str = "return_value") -> Any:
        """Return what the task returned, or pushed as ``key``."""
        return self.api.xcom(self.dag_id, self.run_id, task_id, key)

    def links(self, task_id: str, map_index: int = -1) -> dict[str, str | None]:
        """Return the buttons of a task and where they lead."""
        path = f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id)}/taskInstances/{task_id}/links"
        links: dict[str, str | None] = self.api.call("GET", path, params={"map_index": map_index})[
            "extra_links"
        ]
        return links

    def mark(self, task_id: str, state: str) -> None:
        """Mark the task as a person does in the UI."""
        path = f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id)}/taskInstances/{task_id}"
        self.api.call("PATCH", path, json={"new_state": state})

    def mark_run(self, state: str) -> None:
        """Mark the whole run as a person does in the UI."""
        path = f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id)}"
        self.api.call("PATCH", path, json={"state": state})

    def clear(self, task_id: str, *, include_downstream: bool = False) -> None:
        """Clear the task as a person does in the UI."""
        body = {
            "dry_run": False,
            "dag_run_id": self.run_id,
            "task_ids": [task_id],
            "only_failed": False,
            "include_downstream": include_downstream,
        }
        self.api.call("POST", f"/api/v2/dags/{self.dag_id}/clearTaskInstances", json=body)

    def question(self, task_id: str) -> dict[str, Any]:
        """Return what the task asks a person."""
        asked: dict[str, Any] = self.api.call("GET", self._question(task_id))
        return asked

    def answer(self, task_id: str, option: str) -> None:
        """Answer the task's question as a person does in the UI."""
        self.api.call("PATCH", self._question(task_id), json={"chosen_options": [option], "params_input": {}})

    def _question(self, task_id: str) -> str:
        return (
            f"/api/v2/dags/{self.dag_id}/dagRuns/{quote(self.run_id)}/taskInstances/{task_id}/-1/hitlDetails"
        )
