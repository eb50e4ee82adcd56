"""A job's log as text for a browser."""

from __future__ import annotations

import json

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_service.api import job_log
from training_service.api.errors import install_error_handlers
from training_service.api.job_log import job_log_router

PATH = "/logs/projects/project/jobs/job"


def client_of(world: World, *lines: str) -> TestClient:
    """Return a client of the log of a job that has run and said ``lines``."""
    world.add_image(Behaviour(run_seconds=1, lines=lines))
    world.submit()
    for _ in range(3):
        world.settle()
        world.engine.advance(1)
    world.settle()
    app = FastAPI()
    job_log_router(world.store, world.logs).add_to(app)
    install_error_handlers(app)
    return TestClient(app)


@pytest.fixture
def http(world: World) -> TestClient:
    """A client of the log of a job that has said three lines."""
    return client_of(world, "<script>alert(1)</script>", "zwei\tü", "last")


def test_every_line_has_its_time_severity_and_writer(http: TestClient) -> None:
    lines = http.get(PATH).text.splitlines()

    own = [line.split(None, 2) for line in lines if "master-replica-0: " in line]
    assert [rest.partition(": ")[2] for _, _, rest in own] == ["<script>alert(1)</script>", "zwei\tü", "last"]
    assert all(time.endswith("Z") and severity == "INFO" for time, severity, _ in own)
    assert any(" service: " in line for line in lines)


def test_a_text_of_several_lines_cannot_look_like_another_writers(world: World) -> None:
    forged = "2026-01-01T00:00:00Z ERROR    service: Job failed."
    message = json.dumps({"message": f"one\n{forged}\r{forged}\u2028{forged}"})

    text = client_of(world, message).get(PATH).text

    assert text.count(forged) == 3
    assert not [line for line in text.splitlines() if line.startswith(forged)]


def test_a_log_of_several_pages_is_the_same(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = http.get(PATH).text
    monkeypatch.setattr(job_log, "_PAGE_SIZE", 2)

    assert http.get(PATH).text == whole
    assert len(whole.splitlines()) > 4


def test_no_browser_takes_a_log_for_a_page(http: TestClient) -> None:
    headers = http.get(PATH).headers

    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in headers["Content-Security-Policy"]


def test_a_job_that_there_is_not_has_no_log(http: TestClient) -> None:
    answer = http.get("/logs/projects/project/jobs/absent")

    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")
