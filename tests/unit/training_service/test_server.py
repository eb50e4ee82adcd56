"""The HTTP server of the service."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from tests.support.fakes.gone_client import serve_a_gone_client
from training_service.server import http_config


def test_a_client_that_goes_away_leaves_no_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    serve_a_gone_client(http_config(FastAPI(), "127.0.0.1", 0), "/openapi.json")

    assert [record for record in caplog.records if record.exc_info] == []


def test_an_error_of_the_app_is_still_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a mistake")

    serve_a_gone_client(http_config(broken, "127.0.0.1", 0), "/")

    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["a mistake"]
