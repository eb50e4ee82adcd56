"""
How much longer does the service take to start with the ports of Vertex AI?

It starts a second service on the stack's engine and times it until the first answer: in turns without these
ports, and with gRPC and the proxy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.report import Figure, median_figure
from local_stack.processes.ports import free_port
from local_stack.stack import LocalStack

ROUNDS = 7
_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 60.0


def measure(stack: LocalStack) -> list[Figure]:
    """Return the medians and their difference."""
    alone, beside = [], []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for with_ports in (False, True):
            _time_start(stack, Path(folder), with_ports=with_ports)  # makes database and certificates
        for _ in range(ROUNDS):
            alone.append(_time_start(stack, Path(folder), with_ports=False))
            beside.append(_time_start(stack, Path(folder), with_ports=True))
    more = [ports - none for ports, none in zip(beside, alone, strict=True)]
    return [
        median_figure("start without the ports of Vertex AI", alone),
        median_figure("start with gRPC and the proxy", beside),
        median_figure("more", more, limit=0.5),
    ]


def _time_start(stack: LocalStack, folder: Path, *, with_ports: bool) -> float:
    """Return the seconds from the start of the process until the service answers."""
    port = free_port()
    environment = {
        **os.environ,
        "DOCKER_HOST": stack.settings.engine_url,
        "TRAINING_PORT": str(port),
        "TRAINING_DATABASE_URL": f"sqlite:///{folder / 'jobs.db'}",
        "TRAINING_KEY_DIR": str(folder),
        "TRAINING_CERTIFICATES_DIR": str(folder),
        "TRAINING_GRPC_PORT": str(free_port() if with_ports else 0),
        "TRAINING_VERTEX_PROXY_PORT": str(free_port() if with_ports else 0),
    }
    started = time.perf_counter()
    command = [sys.executable, "-m", "training_service", "serve"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            while not _answers(port):
                if process.poll() is not None or time.perf_counter() - started > _PATIENCE_SECONDS:
                    raise RuntimeError(f"the service did not start; exit status {process.poll()}")
                time.sleep(_POLL_SECONDS)
            return time.perf_counter() - started
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/live", trust_env=False).is_success
    except httpx.TransportError:
        return False
