"""A training service in a thread, on a free port of loopback, over an engine in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.image_ref import parse_image_ref
from training_service.server import service_config
from training_service.settings import ServiceSettings
from training_service.wiring import build_service

IMAGE = "registry.test/demo-project/trainer:1"


@dataclass(frozen=True)
class LiveService:
    """Its address, and the engine that the test plays with."""

    endpoint: str
    engine: MemoryEngine


@contextmanager
def run_service(
    folder: Path,
    behaviour: Behaviour | None = None,
    engine: MemoryEngine | None = None,
    port: int = 0,
    **changes: Any,
) -> Iterator[LiveService]:
    """
    Run a service until the block ends, by default on any free port.

    Its image ``IMAGE`` behaves as ``behaviour`` says; ``changes`` are settings. What runs on ``engine``, and
    what ``jobs.db`` in ``folder`` has, is of an earlier service.
    """
    engine = engine or MemoryEngine()
    engine.add_image(parse_image_ref(IMAGE), behaviour or Behaviour(run_seconds=10**9))
    settings = ServiceSettings(database_url=f"sqlite:///{folder / 'jobs.db'}", port=0, **changes)
    server = uvicorn.Server(service_config(build_service(settings, engine), "127.0.0.1", port))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, "the service has started")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield LiveService(endpoint=f"http://127.0.0.1:{port}", engine=engine)
    finally:
        server.should_exit = True
        thread.join(scaled(60))
