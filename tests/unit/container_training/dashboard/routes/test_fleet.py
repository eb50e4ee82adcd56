"""The fleet over HTTP, for somebody with some rights, before a service that a test plays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from container_training.dashboard.airflow_side.rights import Rights
from tests.support.fakes.job_rows import make_row
from tests.support.fakes.stored_jobs import store_row
from tests.unit.container_training.dashboard.routes.conftest import OpenPages
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.job_rows import JobRow, SearchJobsResponse
from training_api.errors import EngineUnavailable
from training_api.fleet.history import FleetHistoryRequest
from training_api.job.capacity import Capacity
from training_api.job.machines import GIB, Resources
from training_api.states import JobState
from training_service.store.database import open_database
from training_service.use_cases.history_book import HistoryBook

NOW = datetime.now(UTC)
ROOM = {"cpus": 16.0, "memoryBytes": 64 * GIB, "gpus": 0, "replicas": 0}
USED = {"cpus": 9.0, "memoryBytes": 30 * GIB, "gpus": 0, "replicas": 2}
SOME = Rights(
    known=frozenset({"mine", "theirs"}),
    readable=frozenset({"mine", "cancel_orphans"}),
    reads_all=False,
    may_edit=lambda dag_id: False,
)
ALL = Rights(
    known=frozenset({"mine", "theirs"}),
    readable=frozenset({"mine", "theirs"}),
    reads_all=True,
    may_edit=lambda dag_id: False,
)


def ago(**delta: float) -> datetime:
    return NOW - timedelta(**delta)


def row(job_id: str, dag: str, **changes: Any) -> JobRow:
    fields: dict[str, Any] = {
        "job_id": job_id,
        "labels": {"airflow-dag": dag, "airflow-owner": "secret", "airflow-task": "t", "airflow-run": "r"},
        "create_time": ago(hours=3),
        "prepare_time": ago(hours=2),
        "start_time": ago(hours=2),
    }
    return make_row(**(fields | changes))


def trained(job_id: str, dag: str, model: str, **changes: Any) -> JobRow:
    ended = {
        "state": JobState.SUCCEEDED,
        "end_time": ago(hours=1),
        "labels": {"airflow-dag": dag, "model": model},
    }
    return row(job_id, dag, **(ended | changes))


class PlayedService:
    """A service with jobs of two DAGs; of their past it says what the real one does."""

    def __init__(self, database: sa.Engine) -> None:
        self.asked: list[str] = []
        self.histories: list[dict[str, Any]] = []
        self.searches: list[dict[str, Any]] = []
        self.has_engine = True
        self.hold = ""
        self.rows = [
            row("runs", "mine"),
            row("others_runs", "theirs"),
            trained("good", "mine", "digits"),
            trained("others_good", "theirs", "clicks"),
            row("failed", "theirs", state=JobState.FAILED, end_time=ago(hours=1)),
        ]
        for each in self.rows:
            store_row(database, each)
        self._book = HistoryBook(database, self._capacity)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append(path)
        if path.endswith("fleet:history"):
            self.histories.append(json.loads(request.content))
            wanted = FleetHistoryRequest.model_validate(self.histories[-1])
            return httpx.Response(200, json=self._book.of("p", wanted).to_wire())
        if path.endswith("jobs:search"):
            self.searches.append(json.loads(request.content))
            rows = [row for row in self.rows if row.end_time is None]
            states = {JobState.RUNNING: 1 if self.searches[-1].get("dags") else 2}
            found = SearchJobsResponse(jobs=rows, total=len(rows), states=states)
            return httpx.Response(200, json=found.to_wire())
        assert path.endswith("/fleet")
        room = {"capacity": ROOM, "largest": ROOM, "used": USED} if self.has_engine else {}
        return httpx.Response(200, json=room | {"queueLength": 0, "hold": self.hold})

    def _capacity(self) -> Capacity:
        if not self.has_engine:
            raise EngineUnavailable("gone")
        room = Resources(cpus=16, memory_bytes=64 * GIB, gpus=0)
        return Capacity(each=room, total=room)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sa.Engine]:
    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
    yield database
    database.dispose()


@pytest.fixture
def played(database: sa.Engine) -> PlayedService:
    return PlayedService(database)


@pytest.fixture
def client_with(open_pages: OpenPages, played: PlayedService) -> Callable[[Rights], TestClient]:
    limits = {"digits": timedelta(minutes=30), "never": timedelta(days=1)}
    problem = "extra.retraining_max_age_days is odd"
    return lambda rights: open_pages(
        played,
        rights,
        prices=PriceList(source="prices", per_second={"n1-standard-4": 0.01}, currency="EUR"),
        retraining_limits=limits,
        limit_problem=problem,
    )


def test_who_reads_all_dags_sees_the_whole_fleet(client_with: Callable[[Rights], TestClient]) -> None:
    answer = client_with(ALL).get("/api/fleet", params={"version": "all"}).json()

    assert answer["now"]["capacity"] == ROOM
    assert answer["now"]["used"] == USED
    assert answer["now"]["states"]["RUNNING"] == 2
    assert answer["isAll"] is True
    assert answer["report"]["jobs"] == 5
    assert [row["jobs"] for row in answer["report"]["failures"]] == [1]
    assert {group["name"] for group in answer["report"]["cost"]["groups"]} == {"mine", "theirs"}
    assert answer["problems"] == ["extra.retraining_max_age_days is odd"]


def test_a_service_that_admits_no_job_is_the_first_problem(
    played: PlayedService, client_with: Callable[[Rights], TestClient]
) -> None:
    played.hold = "the disk of the database has 1.00 GiB free"

    problems = client_with(ALL).get("/api/fleet").json()["problems"]

    assert problems[0] == "The training service admits no job: the disk of the database has 1.00 GiB free."


def test_others_jobs_count_nowhere_for_who_may_not_read_their_dag(
    client_with: Callable[[Rights], TestClient], played: PlayedService
) -> None:
    response = client_with(SOME).get("/api/fleet", params={"version": "some"})
    answer = response.json()
    report = answer["report"]

    assert answer["isAll"] is False
    assert answer["now"]["states"]["RUNNING"] == 1
    assert answer["now"]["used"] == {"cpus": 4.0, "memoryBytes": 15 * GIB, "replicas": 1.0}
    assert report["jobs"] == 2
    assert report["failures"] == []
    assert report["use"]["cpus"]["peak"][-1] == 4
    assert [group["name"] for group in report["cost"]["groups"]] == ["mine"]
    assert [model["model"] for model in report["models"]] == ["digits"]
    for theirs in ("others", "theirs", "clicks", "never", "secret"):
        assert theirs not in response.text
    for asked in (*played.histories, *played.searches):
        assert asked["dags"] == ["mine"]


def test_models_have_their_age_and_limit(client_with: Callable[[Rights], TestClient]) -> None:
    models = client_with(ALL).get("/api/fleet", params={"version": "models"}).json()["report"]["models"]

    assert [(model["model"], model["isOverdue"], model["limitSeconds"]) for model in models] == [
        ("digits", True, 1800),
        ("never", True, 86400),
        ("clicks", False, None),
    ]
    assert models[0]["lastGood"]["id"] == "good"
    # The jobs are as old as this module.
    age = (datetime.now(UTC) - NOW).total_seconds() + 3600
    assert models[0]["ageSeconds"] == pytest.approx(age, abs=120)
    assert models[1]["ageSeconds"] is None


def test_report_that_the_page_has_is_not_sent_again(client_with: Callable[[Rights], TestClient]) -> None:
    client = client_with(ALL)
    first = client.get("/api/fleet", params={"version": "a"}).json()

    again = client.get("/api/fleet", params={"version": "b", "known": first["report"]["id"]}).json()

    assert again["report"] is None
    assert again["now"] == first["now"]


def test_many_pages_ask_the_service_once(
    client_with: Callable[[Rights], TestClient], played: PlayedService
) -> None:
    client = client_with(ALL)
    for _ in range(10):
        client.get("/api/fleet", params={"version": "many"})

    assert len([path for path in played.asked if path.endswith("/fleet")]) == 1
    assert len(played.histories) == 1
    assert len(played.searches) == 1  # the counts of now


def test_window_decides_what_is_counted(
    client_with: Callable[[Rights], TestClient], database: sa.Engine
) -> None:
    old = row("old", "mine", state=JobState.SUCCEEDED, create_time=ago(days=6), end_time=ago(days=5))
    store_row(database, old)
    client = client_with(ALL)

    counts = [
        client.get("/api/fleet", params={"version": "w", "window": window}).json()["report"]["jobs"]
        for window in ("24h", "7d", "30d")
    ]

    assert counts == [5, 6, 6]


def test_without_an_engine_there_is_no_capacity_and_no_use_of_it(
    client_with: Callable[[Rights], TestClient], played: PlayedService
) -> None:
    played.has_engine = False

    answer = client_with(SOME).get("/api/fleet", params={"version": "away"}).json()

    assert answer["now"]["capacity"] is None
    assert answer["now"]["used"] is None
    assert answer["report"]["use"]["cpus"]["peak"][-1] == 4  # by the machines' full size


@pytest.mark.parametrize("params", [{"window": "1y"}, {"by": "label:"}, {"by": "Team"}, {"by": "label:A"}])
def test_choice_that_there_is_not_is_refused(
    client_with: Callable[[Rights], TestClient], params: dict[str, str]
) -> None:
    assert client_with(ALL).get("/api/fleet", params=params).status_code == 400


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        (
            {"n1-standard-4": 1e13},
            "prices.n1-standard-4: Input should be less than",
        ),
        ({f"m{number}": 1.0 for number in range(1001)}, "prices: Dictionary should have at most 1000"),
    ],
)
def test_prices_that_the_service_does_not_compute_with_are_named(
    open_pages: OpenPages, played: PlayedService, prices: dict[str, float], said: str
) -> None:
    answer = open_pages(played, ALL, prices=PriceList(source="prices", per_second=prices)).get("/api/fleet")

    assert said in answer.json()["message"]


def test_more_dags_than_can_be_asked_for_are_said_to_be_too_many(
    open_pages: OpenPages, played: PlayedService
) -> None:
    dags = frozenset(f"d{number}" for number in range(10_001))
    rights = Rights(known=dags, readable=dags, reads_all=False, may_edit=lambda dag_id: False)

    for path in ("/api/fleet", "/api/jobs"):
        answer = open_pages(played, rights).get(path)
        assert answer.status_code == 400
        assert "dags: List should have at most 10000 items" in answer.json()["message"]


def test_orphans_are_shown_to_those_who_may_read_their_dag(
    client_with: Callable[[Rights], TestClient],
) -> None:
    seen = client_with(SOME).get("/api/fleet/orphans").json()
    everything = client_with(ALL).get("/api/fleet/orphans").json()

    assert [job["id"] for job in seen["jobs"]] == ["runs"]
    assert [job["id"] for job in everything["jobs"]] == ["runs", "others_runs"]
    assert (seen["orphans"], seen["total"]) == (0, 1)  # this Airflow has no such run: unknown
    assert "its run was deleted" in seen["jobs"][0]["why"]
    assert seen["maintenanceDag"] == "cancel_orphans"
    assert everything["maintenanceDag"] is None


def test_page_has_no_data(client_with: Callable[[Rights], TestClient]) -> None:
    page = client_with(ALL).get("/fleet")

    assert page.status_code == 200
    assert 'aria-current="page">Fleet<' in page.text
    assert "digits" not in page.text
