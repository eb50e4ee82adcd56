"""What the store says of itself."""

from __future__ import annotations

from object_store.api.metrics import Metrics
from tests.unit.object_store.conftest import BUCKET, Site, Store, put


def test_requests_are_counted_by_method_of_the_api_and_status(site: Site) -> None:
    site.put("a", b"12345")
    site.get("a")
    site.ask("GET", f"{BUCKET}/o/absent")
    site.ask("GET", "/nothing/of/the/api", headers={"origin": "x"})

    text = site.ask("GET", "/metrics").text

    for line in (
        'object_store_requests_total{code="200",method="objects.insert"} 1.0',
        'object_store_requests_total{code="404",method="objects.get"} 1.0',
        'object_store_requests_total{code="403",method="refused"} 1.0',
        'object_store_request_seconds_count{method="objects.insert"} 1.0',
        "object_store_received_bytes_total 5.0",
        "object_store_requests_in_flight 1.0",
        "object_store_objects 1.0",
        "object_store_stored_bytes 5.0",
        "object_store_disk_free_bytes ",
    ):
        assert line in text, line


def test_health_says_what_lies_in_the_store(site: Site) -> None:
    site.put("a", b"12345")

    answer = site.ask("GET", "/health")

    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert (answer.json()["objects"], answer.json()["stored_bytes"]) == (1, 5)
    assert site.ask("HEAD", "/health").status_code == 200


def test_figures_are_kept_for_a_moment(store: Store) -> None:
    metrics = Metrics(store, 0)
    before = metrics.use()["objects"]
    put(store, "a")

    assert metrics.use()["objects"] == before
    assert Metrics(store, 0).use()["objects"] == before + 1
