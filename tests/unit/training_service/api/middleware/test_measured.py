"""Each request is measured once, by its route; what strangers make up makes no series."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from training_service.api.middleware.measured import Measured
from training_service.telemetry.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def http(metrics: Metrics) -> TestClient:
    app = FastAPI()
    app.add_middleware(Measured, metrics=metrics)

    @app.get("/jobs/{job}")
    def job(job: str) -> str:
        return job

    return TestClient(app)


def counted(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Return how many requests were measured, by method, route and status."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in metrics.requests.collect()
        for sample in family.samples
        if sample.name.endswith("_count")
    }


def test_requests_are_counted_by_method_route_and_status(metrics: Metrics, http: TestClient) -> None:
    for path in ("/jobs/a", "/jobs/b", "/none"):
        http.get(path)

    assert counted(metrics) == {("GET", "/jobs/{job}", "200"): 2, ("GET", "unknown", "404"): 1}


def test_methods_that_are_made_up_are_one(metrics: Metrics, http: TestClient) -> None:
    for method in ("BREW", "WHEN"):
        http.request(method, "/none")

    assert counted(metrics) == {("OTHER", "unknown", "404"): 2}
