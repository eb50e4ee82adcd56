"""Fixtures of the service's unit tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.training_service.world import World
from training_service.store.database import open_database


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"))
