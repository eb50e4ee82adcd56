"""Airflow's public REST API, as far as it shows who still tracks a job. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx

from container_training.work.orphans.orphans import TaskView
from training_api.clients.api_answers import read_answer
from training_api.clients.http_session import HttpSession
from training_api.clients.network import DEFAULT_NETWORK
from training_api.dialects.ml_v1.intent import INTENT_KEY, Intent
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import TransportError
from training_api.job.job_id import MAX_LABEL_LENGTH
from training_api.job.labels import RUN_LABEL

DEFAULT_TIMEOUT_SECONDS = 30.0
#: The largest page that Airflow returns ([api] maximum_page_limit).
_PAGE_SIZE = 100
#: States of a task instance that may still run; ``none`` is Airflow's word for a task that was not scheduled
#: yet. Source: airflow.utils.state.TaskInstanceState, 3.3.2.
LIVE_STATES = (
    "none",
    "scheduled",
    "queued",
    "running",
    "restarting",
    "up_for_retry",
    "up_for_reschedule",
    "deferred",
    "awaiting_input",
)


class AirflowApiClient(HttpSession):
    """
    Reads task instances, DAGs and intents; use as a context manager.

    Methods raise :class:`TransportError` if Airflow does not answer, :class:`ServiceError` if it refuses.

    :param base_url: of the API server, like ``http://127.0.0.1:8080``.
    :param token: a bearer token; else ``username`` and ``password`` are exchanged for one.
    :param transport: for tests.
    """

    def __init__(
        self,
        base_url: str,
        *,
        username: str = "",
        password: str = "",
        token: str = "",
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._login = {"username": username, "password": password}
        transport = transport or DEFAULT_NETWORK.transport(base_url)
        super().__init__(
            httpx.Client(base_url=base_url.rstrip("/"), timeout=timeout_seconds, transport=transport)
        )
        if token:
            self._http.headers["Authorization"] = f"Bearer {token}"

    def live_tasks(self) -> list[TaskView]:
        """Return every task instance of every DAG that may still run."""
        return list(self._tasks({"state": list(LIVE_STATES)}))

    def tasks_of_run(self, job: Job) -> list[TaskView]:
        """Return the task instances, in any state, of all runs that the labels of ``job`` may mean."""
        # Labels are lower-cased and lose some characters; to SQL's LIKE an underscore is any character.
        label = (job.labels or {}).get(RUN_LABEL, "")
        beginning = label[: MAX_LABEL_LENGTH - 9] if len(label) == MAX_LABEL_LENGTH else label
        return list(self._tasks({"run_id_pattern": beginning.replace("-", "_")}))

    def downstream(self, dag_id: str) -> dict[str, frozenset[str]]:
        """Return the direct downstream tasks by task of a DAG's newest version; empty: no such DAG."""
        answer = self._get(f"/api/v2/dags/{quote(dag_id, safe='')}/tasks", {})
        tasks = answer["tasks"] if answer else []
        return {task["task_id"]: frozenset(task["downstream_task_ids"] or ()) for task in tasks}

    def owner_of(self, task: TaskView) -> str:
        """Return the owner token that ``task`` has stored; empty: it has stored none."""
        path = (
            f"/api/v2/dags/{quote(task.dag_id, safe='')}/dagRuns/{quote(task.run_id, safe='')}"
            f"/taskInstances/{quote(task.task_id, safe='')}/state-store/{INTENT_KEY}"
        )
        answer = self._get(path, {"map_index": task.map_index})
        intent = Intent.from_json(answer["value"]) if answer else None
        return intent.owner if intent else ""

    def _tasks(self, wanted: Mapping[str, Any]) -> Iterator[TaskView]:
        # By cursor: with an offset, a task that ends between two pages would hide another one.
        cursor: str | None = ""
        while cursor is not None:
            page = self._get(
                "/api/v2/dags/~/dagRuns/~/taskInstances",
                {**wanted, "cursor": cursor, "limit": _PAGE_SIZE, "order_by": "id"},
            )
            if page is None:
                raise TransportError("Airflow lists no task instances; version 3.3 or later is needed")
            yield from (_task_view(task) for task in page["task_instances"])
            cursor = page.get("next_cursor")

    def _get(self, path: str, params: Mapping[str, Any]) -> Any:
        """Return the JSON answer, or ``None`` for what does not exist."""
        if "Authorization" not in self._http.headers:
            login = self._http.build_request("POST", "/auth/token", json=self._login)
            token = read_answer(self._answer("Airflow", login))
            self._http.headers["Authorization"] = f"Bearer {token['access_token']}"
        response = self._answer("Airflow", self._http.build_request("GET", path, params=dict(params)))
        return None if response.status_code == httpx.codes.NOT_FOUND else read_answer(response)


def _task_view(task: Mapping[str, Any]) -> TaskView:
    job_id = (task.get("rendered_fields") or {}).get("job_id")
    return TaskView(
        dag_id=task["dag_id"],
        run_id=task["dag_run_id"],
        task_id=task["task_id"],
        map_index=task["map_index"],
        state=task["state"],
        waits_for=job_id if isinstance(job_id, str) else None,
    )
