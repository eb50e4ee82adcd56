"""A real object store in a process of its own, and clients of it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from container_training.work.object_store import ObjectStore
from tests.support import web
from tests.support.ports import reserve_port
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from local_stack.stack import LocalStack


def connect(url: str) -> ObjectStore:
    """Return a client of the store at ``url``, to be closed; for processes of their own too."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="demo-project", credentials=AnonymousCredentials(), client_options={"api_endpoint": url}
    )
    return ObjectStore(client)


@pytest.fixture(scope="session")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an object store with the bucket ``bkt``."""
    port, data = reserve_port(), tmp_path_factory.mktemp("objects")
    with start_store(port, data) as process:
        yield f"http://127.0.0.1:{port}"
        process.terminate()


def start_store(port: int, data: Path) -> subprocess.Popen[bytes]:
    """Start the local stack's object store, and make the bucket."""
    process = start_object_store(port, data)
    try:
        url = f"http://127.0.0.1:{port}/storage/v1/b"
        web.post(url, json={"name": "bkt"}).raise_for_status()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def start_object_store(
    port: int, root: Path, *, kept: Path | None = None, host: str = "127.0.0.1"
) -> subprocess.Popen[bytes]:
    """
    Start the package ``object_store`` on a folder; return when it answers.

    :param kept: the file that gets its log; default: nobody reads it.
    :param host: the address that it listens on.
    """
    command = [
        *(sys.executable, "-m", "object_store", "serve"),
        *(f"--root={root}", f"--port={port}", f"--host={host}"),
    ]
    with (kept or Path(os.devnull)).open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(
            lambda: _answers(process, host, port), "the object store answers", ignoring=httpx.TransportError
        )
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _answers(process: subprocess.Popen[bytes], host: str, port: int) -> bool:
    assert process.poll() is None, f"the object store ended with {process.returncode}"
    return web.get(f"http://{host}:{port}/health").is_success


@pytest.fixture
def store(store_url: str) -> Iterator[ObjectStore]:
    """A client of the store."""
    with closing(connect(store_url)) as store:
        yield store


@pytest.fixture
def stack_store(stack: LocalStack) -> Iterator[ObjectStore]:
    """A client of the object store of the session's stack."""
    with closing(connect(stack.settings.object_store_url)) as store:
        yield store


@pytest.fixture
def folder() -> str:
    """A folder that nobody used."""
    return f"gs://bkt/{uuid.uuid4().hex[:8]}"
