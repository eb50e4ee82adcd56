"""
The connection to the service: past every proxy, named when nobody answers.

It can be closed twice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from tests.support.fakes.training_answers import ENDPOINT, Call, raising
from training_api.clients.training import AsyncTrainingClient, TrainingClient
from training_api.errors import TransportError


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("connection refused"),
        httpx.ConnectTimeout("timed out"),
        httpx.ReadTimeout("timed out"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("server disconnected"),
    ],
)
def test_no_answer_is_a_transport_error_that_names_the_request(call: Call, error: Exception) -> None:
    with pytest.raises(TransportError) as caught:
        call(raising(error), "get_job", "a")

    expected = f"the training service at {ENDPOINT} did not answer GET /v1/projects/demo/jobs/a: {error}"
    assert str(caught.value) == expected
    assert caught.value.__cause__ is error


def test_a_silent_failure_is_named_by_its_kind(call: Call) -> None:
    with pytest.raises(TransportError, match=r": ReadTimeout$"):
        call(raising(httpx.ReadTimeout("")), "get_job", "a")


@pytest.mark.parametrize(
    "endpoint", ["http://training.example.com", "https://training.example.com", "http://[::1]:8470"]
)
def test_no_answer_names_the_endpoint_as_it_was_given(call: Call, endpoint: str) -> None:
    with pytest.raises(TransportError) as caught:
        call(raising(httpx.ConnectError("refused")), "get_job", "a", endpoint=endpoint)

    assert str(caught.value).startswith(f"the training service at {endpoint} did not answer GET ")


@contextmanager
def _recording_server() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a real server that answers ``{}``, and the targets asked for."""
    targets: list[str] = []

    class _Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            targets.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", targets
        finally:
            server.shutdown()
            thread.join()


def test_a_proxy_of_the_environment_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    with _recording_server() as (proxy, proxied), _recording_server() as (endpoint, asked):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)

        async def ask() -> None:
            async with AsyncTrainingClient(endpoint, "demo") as client:
                await client.get_job("b")

        with TrainingClient(endpoint, "demo") as client:
            client.get_job("a")
        asyncio.run(ask())

    assert (proxied, asked) == ([], ["/v1/projects/demo/jobs/a", "/v1/projects/demo/jobs/b"])


def test_a_client_can_be_closed_twice() -> None:
    client = TrainingClient(ENDPOINT, "demo")

    client.close()
    client.close()

    with pytest.raises(RuntimeError, match="closed"):
        client.get_job("a")
