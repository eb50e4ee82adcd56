"""An object store in a thread of the tests' own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from object_store.api.access import ContainerAccess
from object_store.api.metrics import Metrics
from object_store.api.policies import BucketPolicies
from object_store.app import App
from object_store.server import listen, server_of
from object_store.store import Store
from tests.support.ports import reserve_port
from tests.support.waiting import wait_until

#: Where containers reach the store.
CONTAINERS_HOST = "127.0.0.2"


@contextmanager
def store_in_thread(folder: Path, training_url: str | None = None) -> Iterator[str]:
    """Serve ``folder``; give the store's URL. Containers have its port on ``CONTAINERS_HOST``."""
    store = Store(folder)
    app = App(
        store,
        BucketPolicies(training_url),
        Metrics(store, 0),
        access=ContainerAccess(training_url),
        containers_host=CONTAINERS_HOST,
    )
    server = server_of(app)
    port = reserve_port()
    listeners = [listen(host, port) for host in ("127.0.0.1", CONTAINERS_HOST)]
    thread = threading.Thread(target=server.run, args=(listeners,))
    thread.start()
    try:
        wait_until(lambda: server.started, "the object store listens")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        store.close()
