"""No use of the database takes another's connections, and requests do not wait for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from container_engines.memory.engine import MemoryEngine
from training_api.cloud_logging import Severity
from training_service.settings import ServiceSettings
from training_service.store.database import Databases, open_databases
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore, NewLogEntry
from training_service.wiring import build_service

#: Never ends by itself.
_ENDLESS = sa.text(
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT 1 FROM numbers) SELECT count(*) FROM numbers"
)
_JOBS = "/v1/projects/demo-project/jobs"
_JOB = {"jobId": "job", "trainingInput": {"masterConfig": {"imageUri": "registry.test/p/trainer:1"}}}


#: Statements for requests end in time.
HASTY = pytest.mark.parametrize("statement_seconds", [1.0], indirect=True)


@pytest.fixture
def statement_seconds(request: pytest.FixtureRequest) -> float:
    """Return the time limit of statements for requests; 0: none."""
    return float(getattr(request, "param", 0))


@pytest.fixture
def databases(url: str, statement_seconds: float) -> Iterator[Databases]:
    databases = open_databases(url, statement_seconds=statement_seconds, wait_seconds=0.2)
    yield databases
    databases.dispose()


@pytest.fixture
def http(url: str, tmp_path: Path, databases: Databases) -> Iterator[TestClient]:
    settings = ServiceSettings(database_url=url, key_dir=tmp_path)
    app = build_service(settings, MemoryEngine(), databases)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def hold_all(databases: Databases) -> Iterator[Callable[[sa.Engine], int]]:
    """Return a function that takes all connections of a pool, and says how many there are."""
    with ExitStack() as held:

        def hold_all(engine: sa.Engine) -> int:
            count = 0
            while True:
                try:
                    held.enter_context(engine.connect())
                except sa.exc.TimeoutError:
                    return count
                count += 1

        yield hold_all


def test_the_loop_and_the_log_go_on_while_requests_hold_all_connections(
    databases: Databases, hold_all: Callable[[sa.Engine], int]
) -> None:
    line = NewLogEntry(
        project="p",
        job_id="j",
        task_name="t",
        insert_id="1",
        timestamp=datetime.now(UTC),
        severity=Severity.INFO,
        text="hello",
    )

    held = hold_all(databases.api)

    assert held == 15
    assert JobStore(databases.loop, LogStore(databases.loop)).list_active() == []
    LogStore(databases.intake).append([line])


def test_a_request_without_a_connection_is_told_soon_to_come_back(
    http: TestClient, databases: Databases, hold_all: Callable[[sa.Engine], int]
) -> None:
    hold_all(databases.api)
    began = time.monotonic()

    answer = http.get(_JOBS)

    assert time.monotonic() - began < 20  # SQLAlchemy itself waits for 30 s
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.json()["error"]["status"] == "UNAVAILABLE"
    assert "all its database connections for requests are in use" in answer.json()["error"]["message"]


def test_jobs_are_created_while_searches_hold_all_their_connections(
    http: TestClient, databases: Databases, hold_all: Callable[[sa.Engine], int]
) -> None:
    hold_all(databases.api)

    answer = http.post(_JOBS, json=_JOB)

    assert (answer.status_code, answer.json()["jobId"]) == (200, "job")


@HASTY
def test_a_statement_for_a_request_ends_in_time(databases: Databases) -> None:
    with databases.api.connect() as connection, pytest.raises(sa.exc.OperationalError):
        connection.execute(_ENDLESS)

    with databases.api.connect() as connection:
        assert connection.scalar(sa.select(sa.literal(1))) == 1


@HASTY
def test_a_request_that_takes_the_database_too_long_is_told_so(
    http: TestClient, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object, **__: object) -> None:
        with databases.api.connect() as connection:
            connection.execute(_ENDLESS)

    monkeypatch.setattr(JobStore, "list_page", endless)

    answer = http.get(_JOBS)

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert "TRAINING_API_STATEMENT_SECONDS" in answer.json()["error"]["message"]


def test_what_a_request_has_written_survives_a_power_cut_on_sqlite(tmp_path: Path) -> None:
    databases = open_databases(f"sqlite:///{tmp_path / 'jobs.db'}")
    writer = databases.api.get_execution_options()["writer"]
    levels = {}
    for name, engine in {"api": writer, "loop": databases.loop, "intake": databases.intake}.items():
        with engine.connect() as connection:
            levels[name] = connection.exec_driver_sql("PRAGMA synchronous").scalar()
    databases.dispose()

    assert levels == {"api": 2, "loop": 1, "intake": 1}  # FULL, NORMAL, NORMAL
