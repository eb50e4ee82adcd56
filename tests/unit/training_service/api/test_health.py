"""What ``/health`` and its parts say of the store, the engine, the disk and the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from container_engines.memory.engine import MemoryEngine
from training_api.job.machines import Resources
from training_service import wiring
from training_service.api.health import health_router
from training_service.model.heartbeat import Heartbeat
from training_service.settings import ServiceSettings
from training_service.use_cases.health import Health

WELL = {name: {"ok": True} for name in ("store", "engine", "disk", "loop")}


class Service:
    """
    The routes over an engine, and over parts that fail as a test wants.

    :param deadline_seconds: only an answer that never comes waits for so long.
    """

    def __init__(self, deadline_seconds: float = 600.0) -> None:
        self.engine = MemoryEngine()
        self.hangs = threading.Event()
        self.hangs.set()
        self.problem = self.disk = ""
        self.store_error: Exception | None = None
        self.now = 0.0
        self.heartbeat = Heartbeat(monotonic=lambda: self.now)
        health = Health(
            store=self._store,
            engine=self._ping,
            disk=lambda: self.disk,
            loop_problem=lambda: self.problem,
            heartbeat=self.heartbeat,
            live_seconds=300,
            deadline_seconds=deadline_seconds,
        )
        app = FastAPI()
        health_router(health, CollectorRegistry(), "1.2").add_to(app)
        self.client = TestClient(app)

    def _store(self) -> None:
        if self.store_error:
            raise self.store_error

    def _ping(self) -> str:
        self.hangs.wait()
        return self.engine.ping()

    def health(self, path: str = "/health") -> tuple[int, dict[str, Any]]:
        answer = self.client.get(path)
        return answer.status_code, answer.json()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.hangs.set()


def test_a_service_that_runs_jobs_is_well(service: Service) -> None:
    assert service.health() == (
        200,
        {"status": "ok", "version": "1.2", "role": "active", "engine": "memory", "parts": WELL},
    )
    assert service.health("/health/ready") == (200, {"status": "ok", "parts": WELL})
    assert service.health("/health/live") == (200, {"status": "ok"})


def test_an_engine_that_does_not_answer_degrades_the_service_and_does_not_kill_it(service: Service) -> None:
    service.engine.available = False

    status, answer = service.health()

    assert (status, answer["status"]) == (503, "degraded")
    assert answer["engine"] == "the memory engine was switched off"
    assert answer["parts"] == WELL | {"engine": {"ok": False, "reason": answer["engine"]}}
    assert service.health("/health/ready")[0] == 503
    assert service.health("/health/live")[0] == 200


@pytest.mark.extended
def test_an_engine_that_hangs_does_not_hang_the_answer_and_is_asked_once() -> None:
    service = Service(deadline_seconds=2.0)
    service.hangs.clear()

    answers = [service.health("/health/ready") for _ in range(2)]

    assert [status for status, _ in answers] == [503] * 2
    assert answers[0][1]["parts"]["engine"] == {"ok": False, "reason": "no answer within 2 s"}
    assert answers[0][1]["parts"]["store"] == {"ok": True}
    assert sum(thread.name == "probe" for thread in threading.enumerate()) == 1
    service.hangs.set()


def test_a_database_that_refuses_degrades_the_service_without_naming_it(service: Service) -> None:
    reason = Exception("connection to server at 10.0.0.1, user secret")
    service.store_error = sa.exc.OperationalError("UPDATE", {}, reason)

    status, answer = service.health("/health/ready")

    assert status == 503
    assert answer["parts"]["store"] == {"ok": False, "reason": "Exception; the service's log has the reason"}


def test_a_full_disk_degrades_the_service(service: Service) -> None:
    service.disk = "the disk of the database has 1.00 GiB free"

    status, answer = service.health()

    assert (status, answer["status"], answer["engine"]) == (503, "degraded", "memory")
    assert answer["parts"]["disk"]["reason"] == f"no job is admitted: {service.disk}"


def test_a_loop_that_fails_degrades_the_service(service: Service) -> None:
    service.problem = "KeyError"

    status, answer = service.health()

    assert (status, answer["status"], answer["engine"]) == (503, "degraded", "memory")
    assert answer["loop"].startswith("no job moves: its last iteration ended in KeyError")
    assert service.health("/health/live")[0] == 200


def test_a_loop_that_hangs_is_dead_until_it_goes_on(service: Service) -> None:
    service.now = 300.0
    young = service.health("/health/live")
    service.now = 301.0
    old = service.health("/health/live")
    service.heartbeat.beat()

    assert young[0] == 200
    assert old[0] == 503
    assert old[1]["reason"].startswith("the loop's last good iteration was 301 s ago, more than 300 s")
    assert service.health("/health")[0] == 200


class HangingEngine(MemoryEngine):
    """It takes every question, and answers none until a test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def ping(self) -> str:
        self.may_answer.wait()
        return super().ping()

    def hosts(self) -> Mapping[str, Resources]:
        self.may_answer.wait()
        return super().hosts()


@pytest.mark.extended
def test_metrics_come_in_time_and_say_what_hangs(
    tmp_path: Path, key_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "_CAPACITY_SECONDS", 0.1)
    engine = HangingEngine()
    settings = ServiceSettings(database_url=f"sqlite:///{tmp_path / 'jobs.db'}", key_dir=key_dir)
    client = TestClient(wiring.build_service(settings, engine), base_url="http://127.0.0.1:8470")

    found = client.get("/metrics").text
    engine.may_answer.set()

    assert 'training_ready{part="engine"} 0.0' in found
    assert 'training_ready{part="store"} 1.0' in found
    assert "training_loop_last_success_timestamp_seconds" in found
    assert "training_capacity{" not in found


def test_no_token_is_needed_to_ask_for_health(serve: Callable[..., TestClient], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text("principals: []")
    tokens.chmod(0o600)
    client = serve(require_auth=True, tokens_file=tokens)

    answers = {path: client.get(f"/health{path}").status_code for path in ("", "/live", "/ready")}

    assert answers == {"": 200, "/live": 200, "/ready": 200}


@pytest.mark.parametrize("accept", ["text/plain;version=a.b.c", "application/openmetrics-text;version=;q="])
def test_metrics_are_answered_whatever_a_client_accepts(service: Service, accept: str) -> None:
    assert service.client.get("/metrics", headers={"accept": accept}).status_code == 200
