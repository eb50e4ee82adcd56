"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.live_service import LiveService, run_service
from training_api.clients.training import TrainingClient


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LiveService]:
    with run_service(tmp_path) as service:
        yield service


@pytest.fixture
def client(service: LiveService) -> Iterator[TrainingClient]:
    with TrainingClient(service.endpoint, "demo-project") as client:
        yield client
