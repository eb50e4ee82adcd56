"""Pages of lists in the order of a table's ``sequence``, newest first."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

from training_service.model.paging import foreign_token

#: A page token: the sequence of the page's last row. 18 digits fit into 64 bits.
_TOKEN = re.compile(r"[0-9]{1,18}", re.ASCII)


def read_page(
    connection: sa.Connection,
    query: sa.Select[Any],
    sequence: sa.ColumnElement[int],
    page_size: int,
    page_token: str,
) -> tuple[list[Any], str]:
    """
    Return a page of the rows of ``query``, and the next page's token (empty: none).

    :param sequence: the column that grows with every row; it is selected under this name.
    :raises InvalidRequest: the token is invalid.
    """
    if page_token:
        if not _TOKEN.fullmatch(page_token):
            raise foreign_token(page_token)
        query = query.where(sequence < int(page_token))
    rows = list(connection.execute(query.order_by(sequence.desc()).limit(page_size + 1)))
    page = rows[:page_size]
    return page, str(page[-1].sequence) if len(rows) > page_size else ""
