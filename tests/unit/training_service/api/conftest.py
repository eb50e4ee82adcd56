"""
The service's HTTP surface without a server and without a scheduler.

What is submitted stays QUEUED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from container_engines.memory.engine import MemoryEngine
from training_service.settings import ServiceSettings
from training_service.wiring import build_service

ADDRESS = "http://127.0.0.1:8470"


@pytest.fixture(scope="session")
def key_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a signing key that all services of these tests have."""
    return tmp_path_factory.mktemp("key")


@contextmanager
def serving(folder: Path, key_dir: Path) -> Iterator[Callable[..., TestClient]]:
    with ExitStack() as clients:

        def serve(**settings: Any) -> TestClient:
            known = {"database_url": f"sqlite:///{folder / 'jobs.db'}", "key_dir": key_dir} | settings
            app = build_service(ServiceSettings(**known), MemoryEngine())
            client = TestClient(app, base_url=ADDRESS, raise_server_exceptions=False)
            clients.callback(client.close)
            return client

        yield serve


@pytest.fixture
def serve(tmp_path: Path, key_dir: Path) -> Iterator[Callable[..., TestClient]]:
    """Return a function that returns a client of a new service; its arguments are settings."""
    with serving(tmp_path, key_dir) as serve:
        yield serve


@pytest.fixture
def http(serve: Callable[..., TestClient]) -> TestClient:
    """A client of an open service."""
    return serve()


@pytest.fixture(scope="module")
def serve_shared(
    tmp_path_factory: pytest.TempPathFactory, key_dir: Path
) -> Iterator[Callable[..., TestClient]]:
    """
    As ``serve``, for all tests of a module.

    To build a service takes longer than to be refused by it.
    """
    with serving(tmp_path_factory.mktemp("shared"), key_dir) as serve:
        yield serve


@pytest.fixture(scope="module")
def unchanged(serve_shared: Callable[..., TestClient]) -> TestClient:
    """A client of an open service that a module's tests share, because they leave it as it is."""
    return serve_shared()
