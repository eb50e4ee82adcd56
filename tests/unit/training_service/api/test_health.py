"""What ``/health`` says of the engine and of the loop."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from container_engines.memory.engine import MemoryEngine
from training_service.api.health import health_router


class Service:
    """The routes over an engine, and a loop that fails with ``problem``."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.problem = ""
        app = FastAPI()
        router = health_router(self.engine, CollectorRegistry(), "1.2", lambda: self.problem)
        app.include_router(router)
        self.client = TestClient(app)

    def health(self) -> tuple[int, dict[str, str]]:
        answer = self.client.get("/health")
        return answer.status_code, answer.json()


@pytest.fixture
def service() -> Service:
    return Service()


def test_a_service_that_runs_jobs_is_well(service: Service) -> None:
    assert service.health() == (200, {"status": "ok", "version": "1.2", "engine": "memory"})


def test_an_engine_that_does_not_answer_degrades_the_service(service: Service) -> None:
    service.engine.available = False

    status, answer = service.health()

    assert (status, answer["status"]) == (503, "degraded")
    assert answer["engine"] == "the memory engine was switched off"


def test_a_loop_that_fails_degrades_the_service(service: Service) -> None:
    service.problem = "KeyError"

    status, answer = service.health()

    assert (status, answer["status"], answer["engine"]) == (503, "degraded", "memory")
    assert answer["loop"].startswith("no job moves: its last iteration ended in KeyError")
