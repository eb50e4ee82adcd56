"""Whether the database can be read and written."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.support.fakes.world import World
from training_service.store.store_probe import store_probe


def test_a_database_that_works_passes_each_time(world: World) -> None:
    probe = store_probe(world.database)

    probe()
    probe()


def test_a_database_that_takes_no_write_does_not_pass(world: World) -> None:
    probe = store_probe(world.database)
    probe()
    sa.event.listen(world.database, "checkout", lambda raw, *_: raw.execute("PRAGMA query_only=ON"))

    with pytest.raises(sa.exc.OperationalError, match="readonly"):
        probe()
