"""The object store as a process, its clients, and a server to compare it with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from google.auth.credentials import AnonymousCredentials
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from local_stack.processes.ports import free_port

BUCKET = "bench"


@dataclass(frozen=True, slots=True)
class StoreProcess:
    """Its address and its process."""

    url: str
    process: psutil.Process


@contextmanager
def store_process(root: Path) -> Iterator[StoreProcess]:
    """Serve ``root`` and make the bucket."""
    port = free_port()
    command = ["-m", "object_store", "serve", f"--root={root}", f"--port={port}"]
    with _process(command, f"http://127.0.0.1:{port}/health") as process:
        store = StoreProcess(f"http://127.0.0.1:{port}", psutil.Process(process.pid))
        httpx.post(f"{store.url}/storage/v1/b", json={"name": BUCKET}, trust_env=False)
        yield store


@contextmanager
def sink_process() -> Iterator[str]:
    """Give the URL of a server that throws uploads away."""
    port = free_port()
    command = ["-m", "benchmarks.support.object_sink", str(port)]
    with _process(command, f"http://127.0.0.1:{port}/"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def client_of(url: str) -> Iterator[Any]:
    """Give google-cloud-storage's client of a store."""
    from google.cloud import storage

    anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]  # the library has no types for it
    client = storage.Client(project="bench", credentials=anonymous, client_options={"api_endpoint": url})
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _process(command: Sequence[str], probe: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL) as process:
        try:
            _until_it_answers(probe)
            yield process
        finally:
            process.terminate()


@retry(stop=stop_after_delay(30), wait=wait_fixed(0.1), retry=retry_if_exception_type(httpx.TransportError))
def _until_it_answers(url: str) -> None:
    httpx.get(url, trust_env=False)
