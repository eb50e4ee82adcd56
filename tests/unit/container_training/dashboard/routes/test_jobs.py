"""The list of jobs over HTTP, for a user with some rights, before a fake service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi.testclient import TestClient

from container_training.dashboard.airflow_side.rights import Rights
from tests.support.fakes.job_rows import make_row
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.fleet.wire import SearchJobsResponse
from training_api.job.cost import PriceList
from training_api.states import JobState

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

MINE, THEIRS = {"airflow-dag": "mine"}, {"airflow-dag": "theirs"}
RIGHTS = Rights(
    known=frozenset({"mine", "theirs"}),
    readable=frozenset({"mine"}),
    reads_all=False,
    may_edit=lambda dag_id: dag_id == "mine",
)


class PlayedService:
    """A service with a job of each of two DAGs; keeps what it was asked."""

    def __init__(self) -> None:
        self.searches: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.jobs = [make_row(job_id="of_mine", labels=MINE), make_row(job_id="of_theirs", labels=THEIRS)]
        self.is_down = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("refused", request=request)
        path = request.url.path
        if path.endswith("jobs:search"):
            self.searches.append(json.loads(request.content))
            states = {JobState.RUNNING: 2}
            found = SearchJobsResponse(jobs=self.jobs, total=2, states=states, next_page_token="t")
            return httpx.Response(200, json=found.to_wire())
        if path.endswith(":cancel"):
            self.cancelled.append(path)
            return httpx.Response(200, json={})
        job = next(job for job in self.jobs if path.endswith(f"/{job.job_id}"))
        body = {"jobId": job.job_id, "state": job.state, "labels": job.labels}
        return httpx.Response(200, json=body)


@pytest.fixture
def played() -> PlayedService:
    return PlayedService()


@pytest.fixture
def client(
    played: PlayedService, session: Session, kept_answers: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """Somebody who may read and edit ``mine`` only."""
    from airflow.api_fastapi.core_api.security import get_user

    from container_training.dashboard import access
    from container_training.dashboard.airflow_side.connections import Service
    from container_training.dashboard.app import make_app
    from container_training.dashboard.routes import jobs as jobs_api

    transport = httpx.MockTransport(played)
    service = Service(
        conn_id="c",
        project="p",
        ops=OpsClient("http://service.test", "p", transport=transport),
        training=TrainingClient("http://service.test", "p", transport=transport),
        prices=PriceList(source="prices", per_second={"n1-standard-4": 0.01}),
    )
    monkeypatch.setattr(jobs_api.SERVICES, "get", lambda conn_id: service)
    app = make_app()
    app.dependency_overrides = {get_user: lambda: None, access.rights_of: lambda: RIGHTS}
    with TestClient(app) as client:
        yield client


def test_service_is_asked_for_the_jobs_of_readable_dags_only(
    client: TestClient, played: PlayedService
) -> None:
    answer = client.get("/api/jobs", params={"version": "a"}).json()

    assert [search["dags"] for search in played.searches] == [["mine"]]
    # Also a service that does not keep to the question shows nobody what is not theirs.
    assert [job["id"] for job in answer["jobs"]] == ["of_mine"]
    assert answer["jobs"][0]["canCancel"] is True
    assert answer["isAll"] is False


def test_dag_that_may_not_be_read_cannot_be_asked_for(client: TestClient, played: PlayedService) -> None:
    client.get("/api/jobs", params={"dag": "theirs", "version": "b"})

    assert [search["dags"] for search in played.searches] == [[]]


def test_counts_beside_the_states_are_of_all_states(client: TestClient, played: PlayedService) -> None:
    answer = client.get("/api/jobs", params={"state": "RUNNING", "label": "team=a", "version": "c"}).json()

    assert [search["filter"] for search in played.searches] == [
        '(state=RUNNING) AND labels.team="a"',
        'labels.team="a"',
    ]
    assert answer["states"]["RUNNING"] == 2
    assert answer["next"] == "t"


def test_same_question_of_many_pages_is_asked_once_until_something_changes(
    client: TestClient, played: PlayedService
) -> None:
    for _ in range(5):
        client.get("/api/jobs", params={"version": "d"})
    assert len(played.searches) == 1

    client.get("/api/jobs", params={"version": "e"})
    assert len(played.searches) == 2


def test_job_that_may_not_be_seen_is_not_there(client: TestClient, played: PlayedService) -> None:
    answer = client.post("/api/jobs/of_theirs/cancel", headers={"X-Training-Action": "1"})

    assert answer.status_code == 404
    assert "'of_theirs'" in answer.json()["message"]
    assert played.cancelled == []


def test_cancel_needs_the_header_that_only_our_page_sends(client: TestClient, played: PlayedService) -> None:
    assert client.post("/api/jobs/of_mine/cancel").status_code == 403
    assert played.cancelled == []

    answer = client.post("/api/jobs/of_mine/cancel", headers={"X-Training-Action": "1"})

    assert answer.json() == {"id": "of_mine", "state": "RUNNING"}
    assert played.cancelled == ["/v1/projects/p/jobs/of_mine:cancel"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"label": "Team"}, "label: must be KEY=VALUE"),
        ({"state": "BROKEN"}, "state"),
        ({"since": "never"}, "since: must be one of"),
    ],
)
def test_filter_that_cannot_be_read_says_which_part(
    client: TestClient, params: dict[str, str], message: str
) -> None:
    answer = client.get("/api/jobs", params=params)

    assert answer.status_code == 400
    assert message in answer.json()["message"]
    assert answer.json()["advice"] == "Change the filter, or clear it."


def test_service_that_is_down_is_said_with_what_to_do(client: TestClient, played: PlayedService) -> None:
    played.is_down = True

    answer = client.get("/api/jobs", params={"version": "f"})

    assert answer.status_code == 503
    assert "did not answer" in answer.json()["message"]
    assert "Is the training service running" in answer.json()["advice"]


def test_pages_have_no_data_and_load_only_what_is_kept_for_a_year(client: TestClient) -> None:
    page = client.get("/jobs")
    files = [part.split('"')[0] for part in page.text.split('"') if "/static/" in part]

    assert page.headers["Cache-Control"] == "no-store"
    assert "of_mine" not in page.text
    for name in files:
        answer = client.get(name)
        assert answer.status_code == 200, name
        assert answer.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    old = files[0].replace(files[0].split("/")[2], "000000000000")
    assert client.get(old).headers["Cache-Control"] == "private, no-cache"


def test_task_without_a_job_says_so_and_unreadable_dags_have_none(
    client: TestClient, add_run: Callable[..., None]
) -> None:
    add_run("mine", "r", "submit")
    for dag_id in ("mine", "theirs", "nobodys"):
        params = {"dag_id": dag_id, "run_id": "r", "task_id": "submit", "map_index": "{MAP_INDEX}"}
        answer = client.get("/task", params=params, follow_redirects=False)
        assert answer.status_code == 200
        assert "No training job" in answer.text
