"""The connections of a client: kept until it is closed."""

from __future__ import annotations

import httpx

from training_api.clients.http_session import HttpSession


def test_the_clients_own_connections_are_closed_with_it() -> None:
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200)))

    with HttpSession(http):
        assert http.get("http://service.test/").is_success

    assert http.is_closed


def test_a_session_can_be_closed_twice() -> None:
    http = httpx.Client()
    session = HttpSession(http)

    session.close()
    session.close()

    assert http.is_closed
