"""A task says so if no triggerer would continue it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from container_training.runtime import triggerer
from container_training.runtime.triggerer import warn_without_triggerer
from tests.support.loopback_server import serving
from tests.support.speed import scaled

HEARTBEAT = "2026-11-23T12:00:00+00:00"
ABSENT = {"status": None, "latest_triggerer_heartbeat": None}
LOST = {"status": "unhealthy", "latest_triggerer_heartbeat": HEARTBEAT}
ALIVE = {"status": "healthy", "latest_triggerer_heartbeat": HEARTBEAT}


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggerer, "_kept", {})
    monkeypatch.setattr(triggerer, "_ANSWER_SECONDS", scaled(60))


class Log:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, _: int, text: str, *values: Any) -> None:
        self.lines.append(text % values)


@contextmanager
def api_server(answer: bytes, asked: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Yield the address of a server that gives this answer to the health check."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked()
            self.send_response(200 if self.path == "/team/api/v2/monitor/health" else 404)
            self.end_headers()
            self.wfile.write(answer)

    with serving(Handler) as url:
        yield f"{url}/team"


def said(monkeypatch: pytest.MonkeyPatch, answer: bytes, **settings: str) -> list[str]:
    """Return the warnings where the API server's address is set as ``settings`` say."""
    log = Log()
    monkeypatch.delenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", raising=False)
    with api_server(answer) as address:
        for name, value in settings.items():
            monkeypatch.setenv(f"AIRFLOW__{name}", address + value)
        warn_without_triggerer(log)
    return log.lines


@pytest.mark.parametrize(
    "settings", [{"CORE__EXECUTION_API_SERVER_URL": "/execution/"}, {"API__BASE_URL": "/"}]
)
@pytest.mark.parametrize(
    ("health", "expected"), [(ABSENT, "there never was one"), (LOST, f"last one was seen at {HEARTBEAT}")]
)
def test_no_live_triggerer_is_a_warning_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], health: Mapping[str, Any], expected: str
) -> None:
    (line,) = said(monkeypatch, json.dumps({"triggerer": health}).encode(), **settings)

    assert expected in line
    assert "Start `airflow triggerer`, or wait on a worker with deferrable=False" in line


@pytest.mark.parametrize(
    "answer", [json.dumps({"triggerer": ALIVE}).encode(), b"{}", b"[1]", b"<html>", b"1"]
)
def test_a_live_triggerer_and_an_answer_of_another_kind_are_no_warning(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    assert said(monkeypatch, answer, CORE__EXECUTION_API_SERVER_URL="/execution/") == []


def test_an_api_server_that_does_not_answer_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, b"", CORE__EXECUTION_API_SERVER_URL="0/execution/") == []


@pytest.mark.parametrize("answer", [json.dumps({"triggerer": LOST}).encode(), b"<html>"])
def test_a_process_that_defers_many_tasks_asks_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    requests: list[None] = []

    def warnings_at(second: float) -> int:
        monkeypatch.setattr(triggerer, "_now", lambda: second)
        warn_without_triggerer(log := Log())
        return len(log.lines)

    with api_server(answer, lambda: requests.append(None)) as address:
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", f"{address}/execution/")
        warnings = [warnings_at(second) for second in (0.0, 1.0, 59.0, 60.0, 61.0)]

    assert len(requests) == 2
    assert set(warnings) == {int(answer != b"<html>")}
