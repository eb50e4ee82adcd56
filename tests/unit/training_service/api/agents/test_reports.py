"""Who may use the routes of agents, and what they take."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from container_engines.swarm.facts import NodeFacts
from training_service.access.agent_token import AgentTokens
from training_service.access.signing_key import SigningKey
from training_service.agent.wire import KNOWN, PATHS, STORE, SYNC
from training_service.api.agents.reports import agents_router
from training_service.api.errors import install_error_handlers
from training_service.api.middleware.agent_gate import AgentGate
from training_service.api.middleware.body_limit import BodyLimit
from training_service.intake.metric_stream import StreamName
from training_service.intake.node_streams import NodeStreams
from training_service.intake.report_sink import StoredReports
from training_service.store.database import open_database
from training_service.store.measurement_store import MeasurementStore

TOKENS = AgentTokens(SigningKey.generate())
AGENT = {"Authorization": f"Bearer {TOKENS.of('node')}"}
OTHER = {"Authorization": f"Bearer {TOKENS.of('other')}"}
STREAM = StreamName(job_uid="job", task_name="master-replica-0", source="0.0")
REF = {"jobUid": "job", "taskName": "master-replica-0", "source": "0.0"}
ROW = {"n": "0", "tag": "accuracy", "step": "1", "value": "NaN", "us": "5"}


class Bench:
    """The routes over a database, and whether their service is the active one."""

    def __init__(self, folder: Path) -> None:
        self.is_active = True
        self.store = MeasurementStore(open_database(f"sqlite:///{folder / 'metrics.db'}"))
        sink = StoredReports(self.store, lambda *_: None)
        streams = NodeStreams(lambda _: "/folder", sink, lambda _: (), lambda: None)
        streams.follow(STREAM, "node", has_ended=False)
        app = FastAPI()
        agents_router(streams, NodeFacts()).add_to(app)
        install_error_handlers(app)
        app.add_middleware(BodyLimit)
        app.add_middleware(AgentGate, tokens=TOKENS, is_active=lambda: self.is_active)
        self.client = TestClient(app)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer node.", "Bearer node.guess", "Basic node.guess"])
def test_who_lacks_the_token_is_turned_away_before_the_body_is_read(
    bench: Bench, path: str, header: str
) -> None:
    answer = bench.client.post(path, content=b"x" * (2 << 20), headers={"Authorization": header})

    assert answer.status_code == 401
    assert "token of a machine's agent" in answer.json()["error"]["message"]


def test_a_standby_takes_nothing(bench: Bench) -> None:
    bench.is_active = False

    assert bench.client.post(STORE, json={"node": "node"}, headers=AGENT).status_code == 503


def test_a_body_that_is_too_long_is_refused(bench: Bench) -> None:
    assert bench.client.post(STORE, content=b"x" * (2 << 20), headers=AGENT).status_code == 400


def test_a_repeated_post_is_stored_once(bench: Bench) -> None:
    asked = {"node": "node", "streams": [{"stream": REF, "reports": [ROW]}]}
    for _ in range(2):
        assert bench.client.post(STORE, json=asked, headers=AGENT).json() == {"stored": [1]}

    assert len(bench.store.newest("job", "0.0", 10)) == 1
    known = bench.client.post(KNOWN, json={"node": "node", "stream": REF}, headers=AGENT).json()
    assert known == {"newest": [ROW], "nextSequence": "1"}


@pytest.mark.parametrize("changes", [{"tag": ""}, {"us": "-1"}, {"n": "one"}])
def test_a_row_that_is_no_report_is_refused(bench: Bench, changes: dict[str, object]) -> None:
    asked = {"node": "node", "streams": [{"stream": REF, "reports": [ROW | changes]}]}

    assert bench.client.post(STORE, json=asked, headers=AGENT).status_code == 400
    assert bench.store.newest("job", "0.0", 10) == []


@pytest.mark.parametrize("more", [{}, {"newer": {"any": ["thing"]}}], ids=["an older agent", "a newer one"])
def test_agents_of_neighbouring_versions_are_understood(bench: Bench, more: dict[str, object]) -> None:
    """The first agents said no more than this; a newer one says more of each thing."""
    used = {"containerId": "c", "cpuSeconds": 1, "memoryBytes": "2", "ageSeconds": 0} | more
    asked = {"node": "node", "opened": [REF | more], "uses": [used], **more}

    answer = bench.client.post(SYNC, json=asked, headers=AGENT)
    assert answer.status_code == 200
    assert answer.json()["streams"] == [REF | {"hasEnded": False}]
    rows = {"node": "node", "streams": [{"stream": REF | more, "reports": [ROW | more]}]} | more
    assert bench.client.post(STORE, json=rows, headers=AGENT).json() == {"stored": [1]}


def test_another_machine_is_told_nothing_and_stores_nothing(bench: Bench) -> None:
    asked = {"node": "other", "streams": [{"stream": REF, "reports": [ROW]}]}

    assert bench.client.post(STORE, json=asked, headers=OTHER).json() == {"stored": [0]}
    known = bench.client.post(KNOWN, json={"node": "other", "stream": REF}, headers=OTHER)
    assert known.status_code == 404


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (SYNC, {"seen": ""}),
        (KNOWN, {"stream": REF}),
        (STORE, {"streams": [{"stream": REF, "reports": [ROW]}]}),
    ],
)
def test_a_machine_speaks_for_no_other(bench: Bench, path: str, asked: dict[str, object]) -> None:
    answer = bench.client.post(path, json=asked | {"node": "node"}, headers=OTHER)

    assert answer.status_code == 403
    assert "of the agent of machine other, and not of 'node'" in answer.json()["error"]["message"]
    assert bench.store.newest("job", "0.0", 10) == []
