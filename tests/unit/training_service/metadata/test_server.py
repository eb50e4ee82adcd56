"""The metadata endpoint as a server: where it listens, and what containers are told of it."""

from __future__ import annotations

import socket

import pytest
from fastapi import FastAPI

from tests.support import web
from training_service.metadata.server import MetadataServer, metadata_environment


def test_the_server_listens_where_it_is_told_and_says_where_it_cannot() -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    server = MetadataServer(app, "127.0.0.1", 0)
    server.start()
    try:
        assert web.get(f"http://127.0.0.1:{server.port}/").json() == "here"
    finally:
        server.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            MetadataServer(app, "127.0.0.1", port).start()


def test_a_server_that_keeps_trying_listens_once_the_address_is_free() -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = MetadataServer(app, "127.0.0.1", taken.getsockname()[1])
        server.keep_trying()
    server.keep_trying()
    server.keep_trying()
    try:
        assert web.get(f"http://127.0.0.1:{server.port}/").json() == "here"
    finally:
        server.stop()


def test_a_server_can_be_stopped_before_it_was_started() -> None:
    MetadataServer(FastAPI(), "127.0.0.1", 0).stop()


def test_every_library_is_told_the_same_address() -> None:
    told = metadata_environment("172.17.0.1", 8471)

    assert set(told) == {"GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"}
    assert set(told.values()) == {"172.17.0.1:8471"}
