"""The gate: it exchanges tokens, and leads all else to the training service."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from docker.errors import DockerException

from local_stack.machines import gate as module
from local_stack.machines.authority import AuthorityFiles, ensure_certificate
from local_stack.machines.gate import Gate, Joining
from local_stack.machines.invitations import JOIN_SECONDS, Invitations
from local_stack.machines.swarm import Machine
from tests.support import web
from tests.support.loopback_server import serving
from tests.support.ports import reserve_port
from tests.support.waiting import wait_until

LOOPBACK = "127.0.0.1"


class Engine:
    """Stands for the engine: its machines, and Swarm's token for workers."""

    def __init__(self) -> None:
        self.machines = [make_machine("first", "10.0.0.5")]
        self.generation = 1
        self.is_down = False

    def close(self) -> None:
        """Nothing is open."""


def make_machine(name: str, address: str) -> Machine:
    return Machine(
        node_id=f"id-{name}",
        name=name,
        address=address,
        state="ready",
        availability="active",
        is_manager=name == "first",
        cpus=2,
        memory_bytes=1,
        engine_version="27",
    )


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()

    def connect(**_: Any) -> Engine:
        if engine.is_down:
            raise DockerException("no engine")
        return engine

    def rotate(engine: Engine) -> None:
        engine.generation += 1

    monkeypatch.setattr(module.docker, "DockerClient", connect)
    monkeypatch.setattr(module, "machines_of", lambda engine: engine.machines)
    monkeypatch.setattr(module, "worker_token", lambda engine: f"SWMTKN-{engine.generation}")
    monkeypatch.setattr(module, "rotate_worker_token", rotate)
    return engine


class Clock:
    """Seconds since the epoch."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def invitations(tmp_path: Path, clock: Clock) -> Invitations:
    return Invitations(tmp_path / "invitations", clock)


@pytest.fixture
def joining(engine: Engine, invitations: Invitations) -> Joining:
    return Joining("unix:///absent.sock", invitations)


def test_swarms_token_is_replaced_when_the_machine_has_joined(
    joining: Joining, engine: Engine, invitations: Invitations
) -> None:
    assert joining.join(invitations.issue(60), "10.0.0.6") == "SWMTKN-1"
    joining.tidy()
    assert engine.generation == 1

    engine.machines.append(make_machine("second", "10.0.0.6"))
    joining.tidy()
    joining.tidy()

    assert engine.generation == 2
    assert not invitations.given()


def test_a_machine_that_comes_during_the_replacement_gets_the_new_token(
    joining: Joining, engine: Engine, invitations: Invitations, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[str | None] = []
    token = invitations.issue(60)
    another = threading.Thread(target=lambda: got.append(joining.join(token, "10.0.0.7")))

    def rotate(engine: Engine) -> None:
        another.start()
        another.join(0.5)
        engine.generation += 1

    monkeypatch.setattr(module, "rotate_worker_token", rotate)
    joining.join(invitations.issue(60), "10.0.0.6")
    engine.machines.append(make_machine("second", "10.0.0.6"))

    joining.tidy()
    another.join()

    assert got == ["SWMTKN-2"]


def test_swarms_token_is_replaced_though_the_machine_never_joins(
    joining: Joining, engine: Engine, invitations: Invitations, clock: Clock
) -> None:
    joining.join(invitations.issue(60), "10.0.0.6")
    clock.now += JOIN_SECONDS

    joining.tidy()

    assert engine.generation == 2


def test_it_stays_while_another_machine_is_about_to_join_with_it(
    joining: Joining, engine: Engine, invitations: Invitations
) -> None:
    for address in ("10.0.0.6", "10.0.0.7"):
        joining.join(invitations.issue(60), address)
    engine.machines.append(make_machine("second", "10.0.0.6"))

    joining.tidy()
    first = engine.generation
    engine.machines.append(make_machine("third", "10.0.0.7"))
    joining.tidy()

    assert (first, engine.generation) == (1, 2)


def test_a_machine_that_was_there_before_does_not_count_as_one_that_joined(
    joining: Joining, engine: Engine, invitations: Invitations
) -> None:
    engine.machines.append(make_machine("second", "10.0.0.6"))
    joining.join(invitations.issue(60), "10.0.0.6")

    joining.tidy()

    assert engine.generation == 1


def test_the_gate_outlives_an_answer_that_nobody_expected(
    joining: Joining, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def tidy() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise KeyError("Hostname")
        raise SystemExit  # the second look is enough

    monkeypatch.setattr(joining, "tidy", tidy)
    monkeypatch.setattr(module, "_TIDY_SECONDS", 0.0)

    with pytest.raises(SystemExit):
        asyncio.run(Gate(joining, (LOOPBACK, 1)).tidy())

    assert len(looks) == 2


def test_without_an_engine_a_token_stays_good(
    joining: Joining, engine: Engine, invitations: Invitations
) -> None:
    token = invitations.issue(60)
    engine.is_down = True
    with pytest.raises(DockerException):
        joining.join(token, "10.0.0.6")
    engine.is_down = False

    assert joining.join(token, "10.0.0.6") == "SWMTKN-1"


class Service(BaseHTTPRequestHandler):
    """Stands for the training service: says what it was asked."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = f"{self.path} {self.headers.get('Authorization')} ".encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> AuthorityFiles:
    return ensure_certificate(tmp_path_factory.mktemp("machines"), IPv4Address(LOOPBACK))


@pytest.fixture
def training() -> Iterator[int]:
    with serving(Service) as url:
        yield urlsplit(url).port or 0


@pytest.fixture
def gate(joining: Joining, files: AuthorityFiles, training: int) -> Iterator[httpx.Client]:
    """A client of a gate before a training service."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    port, loop = reserve_port(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serve = Gate(joining, (LOOPBACK, training)).serve(LOOPBACK, port, context)
    serving_task = asyncio.run_coroutine_threadsafe(serve, loop)
    trusted = ssl.create_default_context(cafile=files.authority)
    # Each request on a connection of its own, as a gate looks at the first one alone.
    limits = httpx.Limits(max_keepalive_connections=0)
    with web.client(f"https://{LOOPBACK}:{port}", verify=trusted, limits=limits) as client:
        wait_until(lambda: client.post("/machines:join"), "the gate answers", ignoring=httpx.ConnectError)
        yield client
    serving_task.cancel()

    async def end() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(end(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_is_exchanged_once(gate: httpx.Client, invitations: Invitations) -> None:
    token = invitations.issue(60)

    first, second = (gate.post("/machines:join", headers=bearer(token)) for _ in range(2))

    assert (first.status_code, first.json()) == (200, {"token": "SWMTKN-1"})
    assert first.headers["Cache-Control"] == "no-store"
    assert second.status_code == 403
    assert "unknown, used or expired" in second.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"), [({}, 401), ({"Authorization": "Basic abc"}, 401), (bearer("x" * 43), 403)]
)
def test_without_a_token_no_machine_joins(
    gate: httpx.Client, invitations: Invitations, headers: dict[str, str], status: int
) -> None:
    assert gate.post("/machines:join", headers=headers).status_code == status
    assert not invitations.given()


def test_an_engine_that_does_not_answer_is_said_without_its_words(gate: httpx.Client, engine: Engine) -> None:
    engine.is_down = True

    answer = gate.post("/machines:join", headers=bearer("x" * 43))

    assert (answer.status_code, "no engine" in answer.text) == (503, False)


def test_all_else_goes_to_the_training_service_as_it_is(gate: httpx.Client) -> None:
    body = b"\x00\r\n\r\n" * 100_000

    answer = gate.post("/v1/projects/p/jobs?x=1", headers=bearer("other"), content=body)

    assert answer.content == b"/v1/projects/p/jobs?x=1 Bearer other " + body


def test_a_head_without_an_end_is_cut_off(gate: httpx.Client) -> None:
    with pytest.raises(httpx.TransportError):
        gate.post("/v1/x", headers={"X-Long": "x" * 100_000})
