"""Fixtures of the service's unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fakes.studies import Tuning
from tests.support.fakes.world import World
from training_service.store.database import open_database


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"))


@pytest.fixture
def tuning(tmp_path: Path) -> Iterator[Tuning]:
    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
    yield Tuning(World(database, max_replicas=8))
    database.dispose()
