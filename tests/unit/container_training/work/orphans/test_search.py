"""
The search for orphans, with an Airflow behind httpx's mock transport.

Pages, logins, refusals, and who owns which job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import httpx
import pytest

from container_training.work.orphans.airflow_api import AirflowApiClient
from container_training.work.orphans.orphans import Orphan, Verdict
from container_training.work.orphans.search import OrphanSearch, live_jobs
from tests.support.fakes.fake_service import EPOCH, PROJECT, make_job
from tests.support.fakes.job_rows import make_row
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.intent import INTENT_KEY, Intent, owner_labels
from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.errors import AccessDenied, TransportError
from training_api.job.job_id import TaskKey
from training_api.job.labels import OWNER_LABEL
from training_api.states import JobState

KEY = TaskKey(dag_id="digits", task_id="submit", run_id="manual__2026-11-20T09:00:00+00:00")
INTENT = Intent(request_hash="f" * 16, job_id="digits_1", owner="token")
PASSWORD = "secret"
STATES = {"submit": "success", "wait": "failed"}


class FakeAirflow:
    """
    One run of ``digits``: submit -> wait.

    :param live: what the first, wide look finds beside the run.
    """

    def __init__(self, states: Mapping[str, str | None], live: list[dict[str, Any]] | None = None) -> None:
        self.states = states
        self.live = live or []
        self.intent: dict[str, Any] | None = INTENT.to_json()
        self.requests: list[httpx.Request] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        path = request.url.path
        if path == "/auth/token":
            is_right = json.loads(request.content) == {"username": "finder", "password": PASSWORD}
            return httpx.Response(201 if is_right else 401, json={"access_token": "jwt"})
        assert request.headers["Authorization"] == "Bearer jwt"
        if path.endswith(f"/state-store/{INTENT_KEY}"):
            return httpx.Response(200, json={"value": self.intent}) if self.intent else httpx.Response(404)
        if path == "/api/v2/dags/digits/tasks":
            tasks = [
                {"task_id": "submit", "downstream_task_ids": ["wait"]},
                {"task_id": "wait", "downstream_task_ids": []},
            ]
            return httpx.Response(200, json={"tasks": tasks})
        assert path == "/api/v2/dags/~/dagRuns/~/taskInstances"
        return self._page(request.url.params)

    def _page(self, params: httpx.QueryParams) -> httpx.Response:
        found = [make_task(task_id, state) for task_id, state in self.states.items()]
        if "state" in params:
            wanted = params.get_list("state")
            found = [task for task in found + self.live if (task["state"] or "none") in wanted]
        else:
            assert params["run_id_pattern"] == "manual__2026_11_20t09_00_00_00_00"
        place = int(params["cursor"] or 0)
        following = str(place + 1) if place + 1 < len(found) else None
        page = {"task_instances": found[place : place + 1], "next_cursor": following}
        return httpx.Response(200, json=page)


def make_task(task_id: str, state: str | None, **changes: Any) -> dict[str, Any]:
    return {
        "dag_id": KEY.dag_id,
        "dag_run_id": KEY.run_id,
        "task_id": task_id,
        "map_index": -1,
        "state": state,
        "rendered_fields": {},
        **changes,
    }


def find(airflow: FakeAirflow, password: str = PASSWORD) -> list[Orphan]:
    job = make_job(labels=owner_labels(KEY, INTENT), state=JobState.RUNNING)

    def training(request: httpx.Request) -> httpx.Response:
        assert request.url.params["filter"] == "state=QUEUED OR state=PREPARING OR state=RUNNING"
        if not request.url.params.get("pageToken"):
            return httpx.Response(200, json={"jobs": [], "nextPageToken": "1"})
        return httpx.Response(200, json={"jobs": [job.to_wire()]})

    client = TrainingClient("http://training.test", PROJECT, transport=httpx.MockTransport(training))
    with (
        client,
        AirflowApiClient(
            "http://airflow.test/",
            username="finder",
            password=password,
            transport=httpx.MockTransport(airflow.handle),
        ) as api,
    ):
        search = OrphanSearch(api, grace=timedelta(minutes=5), now=lambda: EPOCH + timedelta(hours=1))
        return search.find(client)


def test_job_of_a_run_that_is_over_is_an_orphan() -> None:
    (orphan,) = find(FakeAirflow(STATES))

    assert orphan.verdict is Verdict.ORPHAN
    assert orphan.job.job_id == "digits_1"
    assert orphan.why == "its run is over (submit: success, wait: failed)"


@pytest.mark.parametrize("state", [None, "scheduled", "deferred", "up_for_retry", "restarting"])
def test_job_that_a_task_will_look_at_is_none(state: str | None) -> None:
    assert find(FakeAirflow({"submit": "success", "wait": state})) == []


def test_every_page_of_the_wide_look_is_read() -> None:
    others = [make_task(f"t{place}", "running", dag_id="other") for place in range(3)]
    waiting = make_task("wait", "deferred", dag_id="other", rendered_fields={"job_id": "digits_1"})
    airflow = FakeAirflow(STATES, [*others, waiting])

    assert find(airflow) == []
    assert len([request for request in airflow.requests if "state" in request.url.params]) == 4


def test_task_that_was_cleared_during_the_search_is_seen() -> None:
    airflow = FakeAirflow(STATES)

    def clear_after_wide_look(request: httpx.Request) -> httpx.Response:
        answer = FakeAirflow.handle(airflow, request)
        if "state" in request.url.params:
            airflow.states = {"submit": "success", "wait": None}
        return answer

    airflow.handle = clear_after_wide_look  # type: ignore[method-assign]

    assert find(airflow) == []


@pytest.mark.parametrize("intent", [None, INTENT.to_json() | {"owner": "another"}])
def test_job_that_this_airflow_did_not_submit_is_unknown(intent: dict[str, Any] | None) -> None:
    airflow = FakeAirflow(STATES)
    airflow.intent = intent

    (orphan,) = find(airflow)

    assert orphan.verdict is Verdict.UNKNOWN


def test_refused_login_is_an_error() -> None:
    with pytest.raises(AccessDenied):
        find(FakeAirflow(STATES), password="wrong")


def test_airflow_that_is_away_is_an_error_not_an_empty_answer() -> None:
    airflow = FakeAirflow(STATES)

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    airflow.handle = refuse  # type: ignore[method-assign]

    with pytest.raises(
        TransportError, match=r"Airflow at http://airflow\.test did not answer POST /auth/token"
    ):
        find(airflow)


def test_jobs_of_all_dialects_that_may_be_orphans_are_read_as_rows() -> None:
    rows = [make_row(job_id="12", dialect="vertex_v1", labels={OWNER_LABEL: "o"}), make_row(job_id="job")]
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=SearchJobsResponse(jobs=rows, total=2).to_wire())

    with OpsClient("http://service.test", "p", transport=httpx.MockTransport(answer)) as ops:
        found = live_jobs(ops)

    assert [(job.job_id, job.labels) for job in found] == [("12", {OWNER_LABEL: "o"}), ("job", {})]
    assert sent[0]["filter"] == "state=QUEUED OR state=PREPARING OR state=RUNNING"
