"""
An agent against the service's own routes: every report once.

Whichever of the two is killed, and however fast the trainer reports.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from container_engines.base import METRIC_FILE_NAME, StillStarting
from container_engines.swarm.facts import NodeFacts
from tests.support.fakes import reporter
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_service.access.agent_token import AgentTokens
from training_service.access.signing_key import SigningKey
from training_service.agent.local_engine import LocalEngine
from training_service.agent.node_agent import NodeAgent
from training_service.agent.service_client import ServiceClient
from training_service.api.agents.reports import agents_router
from training_service.api.errors import install_error_handlers
from training_service.api.middleware.agent_gate import AgentGate
from training_service.api.middleware.body_limit import BodyLimit
from training_service.intake.metric_stream import StreamName
from training_service.intake.node_streams import NodeStreams
from training_service.intake.report_sink import StoredReports
from training_service.store.database import open_database
from training_service.store.measurement_store import MeasurementStore

NODE = "node"
TOKENS = AgentTokens(SigningKey.generate())
END_SECONDS = 60.0
STREAM = StreamName(job_uid="job", task_name="master-replica-0", source="0.0")


class Side:
    """The service's side over one database, and its agent; both can be made anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MeasurementStore(open_database(f"sqlite:///{folder / 'metrics.db'}"))
        self.notes: list[str] = []
        self.is_up = True
        self.active = {"job"}
        self.agents: list[tuple[NodeAgent, threading.Thread]] = []
        self.restart_service()

    def restart_service(self) -> None:
        sink = StoredReports(self.store, lambda _, message: self.notes.append(message))
        self.streams = NodeStreams(
            lambda _: str(self.folder / "spool"), sink, lambda uids: self.active & set(uids), lambda: None
        )
        self.streams.start(())
        app = FastAPI()
        agents_router(self.streams, NodeFacts()).add_to(app)
        install_error_handlers(app)
        app.add_middleware(BodyLimit)
        app.add_middleware(AgentGate, tokens=TOKENS, is_active=lambda: True)
        self.service = TestClient(app)

    def start_agent(self) -> None:
        side = self

        class Wire(httpx.BaseTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                if not side.is_up:
                    raise httpx.ConnectError("the service is away")
                answer = side.service.request(
                    request.method, request.url.path, content=request.read(), headers=dict(request.headers)
                )
                return httpx.Response(answer.status_code, content=answer.content)

        client = ServiceClient("http://service", TOKENS.of(NODE), NODE, Wire())
        agent = NodeAgent(self.folder / "spool", client, LocalEngine("", ""))
        thread = threading.Thread(target=agent.run)
        thread.start()
        self.agents.append((agent, thread))

    def stop_agent(self) -> None:
        agent, thread = self.agents.pop()
        agent.stop()
        thread.join()

    def place(self) -> Path:
        """Have the folder made, and return the trainer's file."""
        mount = wait_until(
            lambda: self.streams.open(STREAM, NODE), "the folder is there", ignoring=StillStarting
        )
        return Path(mount) / METRIC_FILE_NAME

    def end(self) -> None:
        """Tell that the container has ended, and wait until its last report is stored."""
        self.streams.follow(STREAM, NODE, has_ended=True)
        wait_until(lambda: STREAM in self.streams.drained, "all reports are stored", seconds=END_SECONDS)

    def steps(self) -> list[int]:
        return [one.report.step for one in self.store.newer("job", "accuracy", 0, 10_000)]


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    side = Side(tmp_path)
    side.start_agent()
    yield side
    while side.agents:
        side.stop_agent()


def report(file: Path, count: int, pause: float = 0.0) -> subprocess.Popen[str]:
    program = [sys.executable, reporter.__file__, str(file), str(count), str(pause)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def end(trainer: subprocess.Popen[str]) -> None:
    trainer.communicate(timeout=scaled(END_SECONDS))


@pytest.mark.extended
def test_a_tight_loop_loses_no_report(side: Side) -> None:
    end(report(side.place(), 1000))
    side.end()

    assert side.steps() == list(range(1, 1001))
    assert side.notes == []


@pytest.mark.extended
def test_what_is_reported_while_the_service_is_away_is_kept(side: Side) -> None:
    file = side.place()
    end(report(file, 50))
    wait_until(side.steps, "the first reports are stored")
    side.is_up = False
    end(report(file, 400))
    side.restart_service()
    side.is_up = True
    side.end()

    assert side.steps() == [*range(1, 51), *range(1, 401)]
    assert side.notes == []


@pytest.mark.extended
def test_an_agent_that_is_started_anew_doubles_and_loses_nothing(side: Side) -> None:
    file = side.place()
    end(report(file, 300))
    wait_until(lambda: len(side.steps()) == 300, "all reports are stored")
    side.stop_agent()
    end(report(file, 80))  # nobody reads; fewer than the file keeps
    side.start_agent()
    side.end()

    assert side.steps() == [*range(1, 301), *range(1, 81)]
    assert side.notes == []


@pytest.mark.extended
def test_a_gap_is_told_to_the_job(side: Side) -> None:
    file = side.place()
    end(report(file, 10))
    wait_until(lambda: len(side.steps()) == 10, "all reports are stored")
    side.stop_agent()
    end(report(file, 250))
    side.start_agent()
    side.end()

    assert side.steps() == [*range(1, 11), *range(151, 251)]
    wait_until(lambda: bool(side.notes), "the gap is told")
    assert "lost" in side.notes[0]


@pytest.mark.extended
def test_folders_go_when_the_job_has_ended(side: Side) -> None:
    side.place()
    side.end()
    side.active.clear()
    side.streams.remove("job")

    wait_until(lambda: not list((side.folder / "spool").iterdir()), "the folder is gone")
