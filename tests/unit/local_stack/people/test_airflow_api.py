"""The client of a busy Airflow: what may be repeated is, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest

from local_stack.errors import LocalStackError
from local_stack.people.airflow_api import AirflowApi
from tests.support.loopback_server import serving


class BusyAirflow(BaseHTTPRequestHandler):
    """
    Accepts every login.

    Each other path answers with 500 at first, and at the third request with a run, or with ``ready_status``.
    """

    seen: Counter[str]
    ready_status = 200
    #: The runs that were asked for.
    asked: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body.get("dag_run_id", ""))
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.seen[f"{self.command} {self.path}"] += 1
        is_ready = self.path == "/auth/token" or self.seen[f"{self.command} {self.path}"] > 2
        body = json.dumps({"access_token": "token", "state": "success", "dag_run_id": "run"}).encode()
        status = 200 if self.path == "/auth/token" else self.ready_status
        self.send_response(status if is_ready else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AirflowApi]:
    monkeypatch.setattr(BusyAirflow, "seen", Counter(), raising=False)
    monkeypatch.setattr(BusyAirflow, "asked", [], raising=False)
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda _: None))
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps({"admin": "secret"}), encoding="utf-8")
    with serving(BusyAirflow) as url, AirflowApi(url, "admin", passwords) as api:
        yield api


def test_a_read_is_repeated_until_airflow_answers(airflow: AirflowApi) -> None:
    assert airflow.run_state("dag", "run") == "success"
    assert BusyAirflow.seen["GET /api/v2/dags/dag/dagRuns/run"] == 3


@pytest.mark.parametrize("status", [200, 409])
def test_a_start_is_repeated_and_starts_one_run(
    airflow: AirflowApi, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Also where a request has started it whose answer was lost."""
    monkeypatch.setattr(BusyAirflow, "ready_status", status)

    run_id = airflow.trigger("dag")

    assert BusyAirflow.asked[1:] == [run_id] * 3


def test_a_start_that_is_refused_is_an_error(airflow: AirflowApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BusyAirflow, "ready_status", 404)

    with pytest.raises(LocalStackError, match="status 404"):
        airflow.trigger("dag")


def test_what_starts_anew_each_time_is_sent_once(airflow: AirflowApi) -> None:
    with pytest.raises(LocalStackError, match="status 500"):
        airflow.call("POST", "/api/v2/pools", json={})

    assert BusyAirflow.seen["POST /api/v2/pools"] == 1
