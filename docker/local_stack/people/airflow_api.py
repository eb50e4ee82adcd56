"""The few calls of Airflow's REST API that the demo makes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from local_stack.errors import LocalStackError

TIMEOUT_SECONDS = 20.0
#: A busy machine keeps Airflow's server, or its SQLite, from answering for a while; what may be repeated is.
PATIENCE_SECONDS = 120.0
_REPEATABLE = frozenset({"GET", "PATCH"})


class AirflowApi:
    """
    A client that is logged in.

    :param base_url: where the api-server listens.
    :param passwords_file: written by the simple auth manager: user name -> password.
    :param timeout_seconds: how long an answer may take.
    :raises LocalStackError: the file is missing, or the login is refused.
    """

    def __init__(
        self, base_url: str, user: str, passwords_file: Path, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        try:
            password = json.loads(passwords_file.read_text(encoding="utf-8"))[user]
        except (OSError, ValueError, KeyError) as error:
            raise LocalStackError(
                f"the password of the user {user!r} must be in {passwords_file}: {error}"
            ) from error
        self._patiently = Retrying(
            retry=retry_if_exception_type((httpx.TransportError, httpx.HTTPStatusError)),
            stop=stop_after_delay(PATIENCE_SECONDS),
            wait=wait_exponential_jitter(max=5),
            reraise=True,
        )
        self._client = httpx.Client(base_url=base_url, timeout=timeout_seconds, trust_env=False)
        token = self.call("POST", "/auth/token", json={"username": user, "password": password})[
            "access_token"
        ]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def has_dag(self, dag_id: str) -> bool:
        """Tell whether the DAG was parsed and is there to be run."""
        with self._errors():
            answer = self._send("GET", f"/api/v2/dags/{dag_id}")
            if answer.status_code == httpx.codes.NOT_FOUND:
                return False
            return not answer.raise_for_status().json().get("is_stale", False)

    def import_errors(self) -> dict[str, str]:
        """Return why DAG files could not be parsed: file name -> traceback."""
        errors = self.call("GET", "/api/v2/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run the DAG."""
        self.call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run now with the params ``conf``, and return its id."""
        # Named here: the request can be repeated when its answer is lost, and starts one run all the same.
        run_id = f"manual__{datetime.now(UTC).isoformat()}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf or {})}
        with self._errors():
            answer = self._patiently(self._once, "POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
            if answer.status_code != httpx.codes.CONFLICT:
                answer.raise_for_status()
        return run_id

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run, in Airflow's words."""
        state: str = self.call("GET", _run(dag_id, run_id))["state"]
        return state

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run as the API describes them."""
        tasks: list[dict[str, Any]] = self.call("GET", f"{_run(dag_id, run_id)}/taskInstances")[
            "task_instances"
        ]
        return tasks

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return what a task has pushed, or None."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key)}"
        with self._errors():
            answer = self._send("GET", path)
            if answer.status_code == httpx.codes.NOT_FOUND:
                return None
            value = answer.raise_for_status().json()["value"]
        # Dictionaries that come from a trigger are answered as a JSON text.
        if isinstance(value, str) and value.startswith("{"):
            return json.loads(value)
        return value

    def log_lines(
        self, dag_id: str, run_id: str, task_id: str, try_number: int, map_index: int = -1
    ) -> list[str]:
        """Return the lines of a task's log, without the structure around them."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{quote(task_id)}/logs/{try_number}"
        content = self.call("GET", path, params={"map_index": map_index, "full_content": "true"})["content"]
        if isinstance(content, str):
            return content.splitlines()
        return [line for event in content for line in _event_lines(event)]

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """
        Return the JSON answer to a request.

        :raises LocalStackError: it was refused, or the server did not answer.
        """
        with self._errors():
            return self._send(method, path, **arguments).raise_for_status().json()

    def _send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        if method in _REPEATABLE:
            return self._patiently(self._once, method, path, **arguments)
        return self._once(method, path, **arguments)

    def _once(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        answer = self._client.request(method, path, **arguments)
        return answer.raise_for_status() if answer.is_server_error else answer

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPStatusError as error:
            answer = error.response
            raise LocalStackError(
                f"Airflow refused {answer.request.method} {answer.request.url.path} with status "
                f"{answer.status_code}:"
                f" {answer.text[:500]}"
            ) from error
        except httpx.HTTPError as error:
            raise LocalStackError(f"Airflow does not answer: {error}; see `make status`") from error


def _run(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"


def _event_lines(event: Any) -> Iterator[str]:
    if not isinstance(event, dict):
        yield str(event)
        return
    yield str(event.get("event", ""))
    for error in event.get("error_detail") or []:
        yield f"{error.get('exc_type')}: {error.get('exc_value')}"
