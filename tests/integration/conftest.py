"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.live_service import LiveService, run_service
from tests.integration.registry_policies import client_of
from tests.integration.vertex_sdk import SetUp, sdk_over_rest
from tests.support.speed import scaled
from training_api.clients.iam import IamPoliciesClient
from training_api.clients.training import TrainingClient


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LiveService]:
    with run_service(tmp_path) as service:
        yield service


@pytest.fixture
def client(service: LiveService) -> Iterator[TrainingClient]:
    with TrainingClient(service.endpoint, "demo-project") as client:
        yield client


@pytest.fixture
def iam(service: LiveService) -> Iterator[IamPoliciesClient]:
    with client_of(service.endpoint, patience_seconds=scaled(120)) as client:
        yield client


@pytest.fixture
def sdk_of() -> Iterator[SetUp]:
    """Return a function that sets ``google.cloud.aiplatform`` up for REST, as its users do."""
    with sdk_over_rest() as set_up:
        yield set_up
