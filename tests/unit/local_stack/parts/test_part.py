"""What every part of the stack has in common."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from local_stack.parts.part import StackPart, answer_status, answers_ok
from local_stack.settings import Part
from tests.support.fakes.stack_workshop import make_workshop
from tests.support.loopback_server import serving
from tests.support.ports import reserve_port


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of a server that answers with the status that the path names."""

    class _Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(self.path.strip("/")))
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(_Answer) as url:
        yield url


@pytest.mark.parametrize(
    ("status", "is_ok"), [(200, True), (204, False), (302, False), (401, False), (500, False)]
)
def test_only_a_200_is_an_ok(server: str, status: int, is_ok: bool) -> None:
    assert answer_status(f"{server}/{status}") == status
    assert answers_ok(f"{server}/{status}") is is_ok


def test_nobody_there_is_no_answer() -> None:
    url = f"http://127.0.0.1:{reserve_port()}/"

    assert answer_status(url) is None
    assert not answers_ok(url)


def test_a_proxy_of_the_environment_has_nothing_to_do_with_it(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{reserve_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    assert answers_ok(f"{server}/200")


class Plain(StackPart):
    """A part that says no more than it must."""

    name = Part.REGISTRY

    def address(self) -> str:
        return "somewhere"

    def is_healthy(self) -> bool:
        return True


def test_a_part_without_programs_needs_no_ports_and_no_lock(tmp_path: Path) -> None:
    part = Plain(make_workshop(tmp_path))

    with part.start_lock():
        part.prepare()
        part.complete()

    assert (list(part.programs()), list(part.listeners())) == ([], [])
    assert list(part.program_names()) == ["registry"]
