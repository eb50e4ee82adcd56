"""
The routes for somebody who may read and edit one DAG of two.

A test plays the service behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi.testclient import TestClient

from container_training.dashboard.airflow_side.rights import Rights
from tests.support.fakes.service_of_two_dags import RIGHTS, ServiceOfTwoDags
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.cost import PriceList

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

#: What the service answers, and the rights of who asks -> a client of the pages.
OpenPages = Callable[..., TestClient]


@pytest.fixture
def played() -> ServiceOfTwoDags:
    return ServiceOfTwoDags()


@pytest.fixture
def open_pages(session: Session, kept_answers: None, monkeypatch: pytest.MonkeyPatch) -> OpenPages:
    """Return what opens the pages with somebody's rights, before a service that a test plays."""
    from airflow.api_fastapi.core_api.security import get_user

    from container_training.dashboard import access, shared
    from container_training.dashboard.airflow_side.connections import Service
    from container_training.dashboard.app import make_app
    from container_training.work.job_buckets import JobBuckets

    def open_pages(
        answer: Callable[[httpx.Request], httpx.Response], rights: Rights, *, project: str = "p", **more: Any
    ) -> TestClient:
        transport = httpx.MockTransport(answer)
        service = Service(
            conn_id="c",
            project=project,
            job_buckets=JobBuckets.of("c", project, {}),
            **{
                "ops": OpsClient("http://service.test", project, transport=transport),
                "training": TrainingClient("http://service.test", project, transport=transport),
                "prices": PriceList(source="prices", per_second={"n1-standard-4": 0.01}),
            }
            | more,
        )
        monkeypatch.setattr(shared.SERVICES, "get", lambda conn_id: service)
        app = make_app()
        app.dependency_overrides = {get_user: lambda: None, access.rights_of: lambda: rights}
        return TestClient(app)

    return open_pages


@pytest.fixture
def client(open_pages: OpenPages, played: ServiceOfTwoDags) -> Iterator[TestClient]:
    """Somebody who may read and edit ``mine`` only."""
    with open_pages(played, RIGHTS) as client:
        yield client
