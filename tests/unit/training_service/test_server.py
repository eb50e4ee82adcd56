"""The HTTP server of the service."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from tests.support.fakes.gone_client import serve_a_gone_client
from training_service.server import service_config


def test_a_client_that_goes_away_leaves_no_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    serve_a_gone_client(service_config(FastAPI(), "127.0.0.1", 0), "/openapi.json")

    assert [record for record in caplog.records if record.exc_info] == []


def test_an_error_of_the_app_is_still_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a mistake")

    serve_a_gone_client(service_config(broken, "127.0.0.1", 0), "/")

    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["a mistake"]


def test_the_server_keeps_an_idle_connection_longer_than_clients_do() -> None:
    """Where both close it after the same time, a request can meet the closing and has no answer."""
    clients = httpx.Limits().keepalive_expiry

    assert clients is not None
    assert service_config(FastAPI(), "127.0.0.1", 0).timeout_keep_alive > 2 * clients
