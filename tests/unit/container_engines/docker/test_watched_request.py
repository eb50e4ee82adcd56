"""A pull that its owner can give up, against a played engine and one that never answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from container_engines.docker.client import DockerConnection
from container_engines.docker.watched_request import look_up, pull
from container_engines.pull_watch import PullAbandoned, PullWatch
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from tests.support.fakes.silent_server import SilentServer, run_silent_server
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.errors import EngineError, EngineUnavailable, RegistryUnavailable

IMAGE = "registry.test/project/trainer:1"
PULL = "POST images/create"


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        engine.registry[IMAGE] = Program()
        yield engine


class Pulling(threading.Thread):
    """A pull on a thread of its own, and how it ended."""

    def __init__(self, connection: DockerConnection, watch: PullWatch) -> None:
        super().__init__(daemon=True)
        self._connection, self._watch = connection, watch
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            pull(self._connection, IMAGE, {}, self._watch)
        except Exception as error:
            self.error = error

    def wait(self) -> Exception | None:
        self.join(scaled(30))
        assert not self.is_alive()
        return self.error


def test_a_pull_makes_the_engine_have_the_image(engine: FakeDocker) -> None:
    pull(DockerConnection(engine.url), IMAGE, {}, PullWatch())

    assert IMAGE in engine.images


@pytest.mark.parametrize("says", ["", '{"status": "Pulling"}\r\n', '{"status": "Pu'])
def test_a_pull_that_hangs_ends_when_its_owner_gives_it_up(engine: FakeDocker, says: str) -> None:
    """Before the head of the answer, between two messages, and within one."""
    engine.hanging[PULL] = says
    watch = PullWatch()
    pulling = Pulling(DockerConnection(engine.url), watch)
    wait_until(lambda: PULL in engine.requests, "the engine is asked")

    watch.cancel()

    assert isinstance(pulling.wait(), PullAbandoned)
    wait_until(lambda: engine.hung_up == [PULL], "the engine sees that nobody waits")


def test_another_pull_of_the_same_image_goes_on(engine: FakeDocker) -> None:
    engine.hanging[PULL] = ""
    connection, watches = DockerConnection(engine.url), [PullWatch(), PullWatch()]
    given_up, other = (Pulling(connection, watch) for watch in watches)
    wait_until(lambda: engine.requests.count(PULL) == 2, "the engine is asked twice")

    watches[0].cancel()
    given_up.wait()
    engine.release.set()

    assert other.wait() is None
    assert IMAGE in engine.images


def test_a_pull_that_was_given_up_before_is_not_asked_for(engine: FakeDocker) -> None:
    watch = PullWatch()
    watch.cancel()

    with pytest.raises(PullAbandoned):
        pull(DockerConnection(engine.url), IMAGE, {}, watch)

    assert PULL not in engine.requests


@pytest.mark.parametrize("says", ["", '{"status": "Pulling"}\r\n'])
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"silent_seconds": 0.2}, "pull registry.test/project/trainer:1: no byte came for 0.2 seconds"),
        ({"deadline_seconds": 0.2}, "pull registry.test/project/trainer:1: not done after 0.2 seconds"),
    ],
)
def test_a_pull_that_takes_too_long_may_work_later(
    engine: FakeDocker, says: str, limits: dict[str, float], message: str
) -> None:
    engine.hanging[PULL] = says

    with pytest.raises(RegistryUnavailable) as raised:
        pull(DockerConnection(engine.url), IMAGE, {}, PullWatch(**limits))

    assert str(raised.value) == message


@pytest.mark.parametrize("limit", ["silent_seconds", "deadline_seconds"])
def test_a_pull_whose_time_was_over_before_it_was_asked_for_has_taken_too_long(
    engine: FakeDocker, limit: str
) -> None:
    engine.hanging[PULL] = ""

    with pytest.raises(RegistryUnavailable):
        pull(DockerConnection(engine.url), IMAGE, {}, PullWatch(**{limit: 0.0}))


def test_a_pull_that_the_engine_cuts_off_is_not_taken_for_done(engine: FakeDocker) -> None:
    engine.cut_off.add(PULL)

    with pytest.raises(EngineUnavailable):
        pull(DockerConnection(engine.url), IMAGE, {}, PullWatch())


def test_a_look_up_that_hangs_ends_when_its_owner_gives_it_up(engine: FakeDocker) -> None:
    asked = f"GET distribution/{IMAGE}/json"
    engine.hanging[asked] = ""
    watch = PullWatch()
    threading.Thread(target=cancel_when, args=(watch, lambda: asked in engine.requests), daemon=True).start()

    with pytest.raises(PullAbandoned):
        look_up(DockerConnection(engine.url), IMAGE, {}, watch)


def cancel_when(watch: PullWatch, happened: Callable[[], bool]) -> None:
    wait_until(happened, "the engine is asked")
    watch.cancel()


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[SilentServer]:
    with run_silent_server(tmp_path / "s") as server:
        yield server


def test_closing_does_not_wait_for_who_connects_to_a_silent_engine(silent: SilentServer) -> None:
    connection = DockerConnection(silent.url)

    def connect() -> None:
        with suppress(EngineUnavailable):
            _ = connection.client

    threading.Thread(target=connect, daemon=True).start()
    wait_until(lambda: silent.connections, "somebody connects")
    closing = threading.Thread(target=connection.close, daemon=True)

    closing.start()

    closing.join(scaled(20))
    assert not closing.is_alive()


def test_an_engine_behind_a_socket_file_is_dialled_there(silent: SilentServer) -> None:
    dialled = DockerConnection(silent.url).dial()

    dialled.connect()

    assert dialled.sock.family is socket.AF_UNIX
    dialled.close()


def test_an_engine_that_cannot_be_dialled_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(EngineError, match=r"unix://... or tcp://..., got 'ssh://.*TRAINING_DOCKER_HOST"):
        DockerConnection("ssh://machine").dial()
