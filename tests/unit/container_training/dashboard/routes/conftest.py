"""
The routes for somebody who may read and edit one DAG of two.

A test plays the service behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.support.fakes.service_of_two_dags import RIGHTS, ServiceOfTwoDags
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.job.cost import PriceList

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@pytest.fixture
def played() -> ServiceOfTwoDags:
    return ServiceOfTwoDags()


@pytest.fixture
def client(
    played: ServiceOfTwoDags, session: Session, kept_answers: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """Somebody who may read and edit ``mine`` only."""
    from airflow.api_fastapi.core_api.security import get_user

    from container_training.dashboard import access
    from container_training.dashboard.airflow_side.connections import Service
    from container_training.dashboard.app import make_app
    from container_training.dashboard.routes import jobs as jobs_api

    transport = httpx.MockTransport(played)
    service = Service(
        conn_id="c",
        project="p",
        ops=OpsClient("http://service.test", "p", transport=transport),
        training=TrainingClient("http://service.test", "p", transport=transport),
        prices=PriceList(source="prices", per_second={"n1-standard-4": 0.01}),
    )
    monkeypatch.setattr(jobs_api.SERVICES, "get", lambda conn_id: service)
    app = make_app()
    app.dependency_overrides = {get_user: lambda: None, access.rights_of: lambda: RIGHTS}
    with TestClient(app) as client:
        yield client
