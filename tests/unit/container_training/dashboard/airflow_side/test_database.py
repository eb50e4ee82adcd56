"""Airflow's database is read in short visits."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.models.variable import Variable
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from sqlalchemy import select

from container_training.dashboard.airflow_side.database import airflow_database
from container_training.dashboard.app import make_app


def test_no_request_keeps_a_connection_of_airflows_database() -> None:
    """
    See ``database.py``: fifty pages at once must not make Airflow's API server hang.

    It hangs with FastAPI's own dependency.
    """
    kept = {"_get_session", "_get_async_session"}

    def calls(dependant: Dependant) -> set[str]:
        own = {getattr(dependant.call, "__name__", "")}
        return own.union(*(calls(each) for each in dependant.dependencies))

    for route in make_app().routes:
        assert isinstance(route, APIRoute)
        assert not calls(route.dependant) & kept, route.path


def test_what_a_block_wrote_is_not_there_if_it_broke_off(airflow_db: Path) -> None:
    query = select(Variable).where(Variable.key == "broken_off")

    def write_and_break_off() -> None:
        with airflow_database() as session:
            session.add(Variable(key="broken_off", val="1"))
            session.flush()
            assert session.scalar(query) is not None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_break_off()

    with airflow_database() as session:
        assert session.scalar(query) is None
