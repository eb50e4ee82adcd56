"""An object store in a thread of the tests' own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_stack.processes.relay import CONTAINERS_ADDRESS
from object_store.api.metrics import Metrics
from object_store.api.policies import BucketPolicies
from object_store.app import App
from object_store.server import server_of
from object_store.store import Store
from tests.support.waiting import wait_until


@contextmanager
def store_in_thread(folder: Path, training_url: str | None = None) -> Iterator[str]:
    """Serve ``folder`` and give the store's URL."""
    store = Store(folder)
    app = App(
        store,
        BucketPolicies(training_url),
        Metrics(store, 0),
        containers_address=CONTAINERS_ADDRESS,
    )
    server = server_of(app, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, "the object store listens")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        store.close()
