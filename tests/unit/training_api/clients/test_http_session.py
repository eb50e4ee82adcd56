"""The connections of a client: kept until it is closed."""

from __future__ import annotations

import asyncio
import ssl

import httpx
import pytest

from tests.support import web
from training_api.clients.http_session import AsyncHttpSession, HttpSession
from training_api.errors import TransportError


def test_the_clients_own_connections_are_closed_with_it() -> None:
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200)))

    with HttpSession(http):
        assert http.get("http://service.test/").is_success

    assert http.is_closed


def test_a_session_can_be_closed_twice() -> None:
    http = web.client()
    session = HttpSession(http)

    session.close()
    session.close()

    assert http.is_closed


@pytest.mark.parametrize("error", [httpx.ReadTimeout("slow"), ssl.SSLError("certificate refused")])
def test_a_request_without_an_answer_is_an_error_that_says_whose(error: Exception) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    request = httpx.Request("GET", "http://service.test/jobs")
    said = rf"Airflow at http://service\.test did not answer GET /jobs: .*{error.args[0]}"

    async def ask() -> None:
        async with AsyncHttpSession(httpx.AsyncClient(transport=httpx.MockTransport(fail))) as session:
            await session._answer("Airflow", request)

    with (
        HttpSession(httpx.Client(transport=httpx.MockTransport(fail))) as session,
        pytest.raises(TransportError, match=said),
    ):
        session._answer("Airflow", request)
    with pytest.raises(TransportError, match=said):
        asyncio.run(ask())
