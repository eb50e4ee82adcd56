"""
Airflow's database, read in short visits.

Not FastAPI's ``SessionDep``: it has its connection from the first query to the end of the request, also while
the request waits for a thread, or for the training service. The pool has fifteen connections, and Airflow
looks at each login's token in the event loop itself, which stands still while the pool is empty - and with it
the requests that would give connections back. Fifty pages that ask at the same moment had a whole API server
hang so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.utils.session import create_session
from sqlalchemy.orm import Session


@contextmanager
def airflow_database() -> Iterator[Session]:
    """
    Open a session for a few queries; its connection is back in the pool after the block.

    Within it: no question to a service or an auth manager, no other session, no ``await``.
    """
    with create_session() as session:
        yield session
