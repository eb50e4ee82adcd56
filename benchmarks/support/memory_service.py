"""
The whole service as a separate process, over an engine in memory with a real clock.

``python -m benchmarks.support.memory_service --database-url URL [--run-seconds S] [--spread-seconds S]
[--side-by-side N] [--no-engine] [--grpc-port PORT]``
prints its port as its first line. Without an engine it answers requests, and moves no job.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import psutil
import structlog
import uvicorn

from container_engines.memory.engine import Behaviour, MemoryEngine
from container_engines.memory.scripted_reports import ScriptedReport
from training_api.job.image_ref import parse_image_ref
from training_api.job.machines import GIB, Resources
from training_service.server import service_config
from training_service.settings import ServiceSettings
from training_service.wiring import build_service

#: The one image of the engine's registry.
IMAGE = "registry.test/bench/trainer:1"
#: The image of a registry that takes requests and never answers.
HANGING_IMAGE = "hangs.test/bench/trainer:1"
#: The metric that trials report.
TAG = "accuracy"
_TICK_SECONDS = 0.05
#: Replicas that run at the same time, so that the service and not the room decides how fast they end.
_SIDE_BY_SIDE = 32


@dataclass(frozen=True, slots=True)
class MemoryService:
    """Its process and its port on loopback."""

    process: psutil.Process
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> httpx.Client:
        """Return a client of it."""
        return httpx.Client(base_url=self.url, trust_env=False, timeout=60)


@contextmanager
def memory_service(
    run_seconds: float,
    side_by_side: int = _SIDE_BY_SIDE,
    *,
    database_url: str = "",
    spread_seconds: float = 0.0,
    has_engine: bool = True,
    grpc_port: int = 0,
) -> Iterator[MemoryService]:
    """
    Run the service until the block ends.

    ``side_by_side`` containers run at a time, for ``run_seconds`` each.

    :param database_url: of its store; default: a SQLite file that goes with it.
    :param spread_seconds: up to so much longer; those of trials report ``TAG`` once.
    :param grpc_port: on loopback, for Vertex AI; 0: none.
    """
    command = [sys.executable, "-m", "benchmarks.support.memory_service"]
    options = ["--run-seconds", str(run_seconds)]
    options += ["--side-by-side", str(side_by_side), "--spread-seconds", str(spread_seconds)]
    options += [] if has_engine else ["--no-engine"]
    options += ["--grpc-port", str(grpc_port)]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        url = database_url or f"sqlite:///{folder}/jobs.db"
        command += ["--database-url", url, *options]
        with _started(command) as service:
            yield service


@contextmanager
def _started(command: list[str]) -> Iterator[MemoryService]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield MemoryService(psutil.Process(process.pid), int(process.stdout.readline()))
        finally:
            process.terminate()


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--run-seconds", type=float, default=0.1)
    parser.add_argument("--spread-seconds", type=float, default=0.0)
    parser.add_argument("--side-by-side", type=int, default=_SIDE_BY_SIDE)
    parser.add_argument("--no-engine", action="store_true")
    parser.add_argument("--grpc-port", type=int, default=0)
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout has the port
    engine = MemoryEngine(Resources(cpus=100_000, memory_bytes=100_000 * GIB))
    behaviour = Behaviour(
        run_seconds=options.run_seconds,
        spread_seconds=options.spread_seconds,
        lines=("hello",),
        reports=(ScriptedReport(after_seconds=0.0, tag=TAG, step=1, value=0.5),),
    )
    engine.add_image(parse_image_ref(IMAGE), behaviour)
    engine.hanging_registries.add(parse_image_ref(HANGING_IMAGE).host)
    engine.available = not options.no_engine
    threading.Thread(target=_keep_time, args=(engine,), daemon=True).start()
    settings = ServiceSettings(
        database_url=options.database_url,
        overcommit=1,
        max_replicas=options.side_by_side,
        grpc_port=options.grpc_port,
    )
    app = build_service(settings, engine)
    server = uvicorn.Server(service_config(app, "127.0.0.1", 0))
    threading.Thread(target=_tell_port, args=(server,), daemon=True).start()
    server.run()


def _keep_time(engine: MemoryEngine) -> None:
    engine.advance(time.time() - engine.now.timestamp())
    while True:
        time.sleep(_TICK_SECONDS)
        engine.advance(time.time() - engine.now.timestamp())


def _tell_port(server: uvicorn.Server) -> None:
    while not server.started:
        time.sleep(_TICK_SECONDS)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)


if __name__ == "__main__":
    main()
