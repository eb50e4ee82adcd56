"""What the store says of itself: ``/health`` and ``/metrics``."""

from __future__ import annotations

import sqlite3
import threading
import time
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from object_store.store import Store

_KEPT_SECONDS = 10.0
_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class Metrics:
    """Counters of requests, and what lies in the store."""

    def __init__(self, store: Store, floor_bytes: int) -> None:
        self._store = store
        self._floor_bytes = floor_bytes
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "object_store_requests", "Requests answered", ["method", "code"], registry=self._registry
        )
        self.seconds = Histogram(
            "object_store_request_seconds",
            "Time from the headers to the end of the answer",
            ["method"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.received = Counter(
            "object_store_received_bytes", "Bytes of bodies received", registry=self._registry
        )
        self.sent = Counter("object_store_sent_bytes", "Bytes of bodies sent", registry=self._registry)
        self.in_flight = Gauge(
            "object_store_requests_in_flight", "Requests under way", registry=self._registry
        )
        for name, text in (
            ("disk_free_bytes", "Free space of the disk"),
            ("objects", "Generations of objects"),
            ("stored_bytes", "Bytes of all generations; copies count again"),
        ):
            gauge = Gauge(f"object_store_{name}", text, registry=self._registry)
            gauge.set_function(partial(self._figure, name))
        self._lock = threading.Lock()
        self._use: dict[str, int] = {}
        self._looked_at = float("-inf")

    def _figure(self, name: str) -> float:
        return self.use()[name]

    def use(self) -> dict[str, int]:
        """Return free bytes, objects and their bytes, at most ten seconds old."""
        with self._lock:
            if time.monotonic() - self._looked_at > _KEPT_SECONDS:
                with self._store.catalog.reading() as connection:
                    count, size = connection.execute(
                        "SELECT count(*), coalesce(sum(size), 0) FROM objects"
                    ).fetchone()
                self._use = {"objects": count, "stored_bytes": size}
                self._looked_at = time.monotonic()
            return {**self._use, "disk_free_bytes": self._store.contents.free_bytes()}

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return status and body of ``/health``: 503 with the reason, if nothing can be written."""
        try:
            use = self.use()
        except (sqlite3.Error, OSError) as error:
            return 503, {"status": "unwell", "reason": f"the store's folder does not answer: {error}"}
        if use["disk_free_bytes"] < self._floor_bytes:
            reason = f"the disk has less than {self._floor_bytes} bytes left: nothing is written"
            return 503, {"status": "unwell", "reason": reason, **use}
        return 200, {"status": "ok", **use}

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)
