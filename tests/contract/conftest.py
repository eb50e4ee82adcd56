"""Fixtures of the contracts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.fakes.world import World
from training_service.store.database import open_database


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    made: str = request.getfixturevalue("postgresql").make_database()
    return made


@pytest.fixture
def database(url: str) -> Iterator[sa.Engine]:
    database = open_database(url)
    yield database
    database.dispose()


@pytest.fixture
def world(database: sa.Engine) -> World:
    world = World(database)
    world.add_image()
    return world
