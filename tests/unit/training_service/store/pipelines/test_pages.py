"""Pages in the order of a table's rows."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from training_api.errors import InvalidRequest
from training_service.store.pipelines.pages import read_page


@pytest.fixture
def rows() -> sa.Engine:
    return sa.create_engine("sqlite://")


def pages(engine: sa.Engine, size: int, token: str = "") -> tuple[list[int], str]:
    table = sa.union_all(
        *(sa.select(sa.literal(number).label("sequence")) for number in (1, 2, 3))
    ).subquery()
    with engine.connect() as connection:
        found, rest = read_page(connection, sa.select(table.c.sequence), table.c.sequence, size, token)
    return [row.sequence for row in found], rest


def test_pages_are_newest_first_and_the_last_one_has_no_token(rows: sa.Engine) -> None:
    assert pages(rows, 2) == ([3, 2], "2")
    assert pages(rows, 2, "2") == ([1], "")
    assert pages(rows, 3) == ([3, 2, 1], "")


@pytest.mark.parametrize("token", ["-1", "x", "1-1", "٣", "9" * 19])
def test_a_token_that_was_not_given_out_is_refused(rows: sa.Engine, token: str) -> None:
    with pytest.raises(InvalidRequest):
        pages(rows, 2, token)
