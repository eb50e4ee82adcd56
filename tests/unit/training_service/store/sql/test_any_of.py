"""The query of a client that waits for many jobs: answered as any filter, by indices alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.filtering import parse_filter
from training_service.store.database import from_us, open_database, writing
from training_service.store.jobs.job_list import plain_condition
from training_service.store.sql.any_of import any_of
from training_service.store.tables import is_job, jobs

_START_US = 1_700_000_000_000_000
_STATES = ("QUEUED", "PREPARING", "RUNNING", "CANCELLING", "SUCCEEDED", "FAILED")
CHANGES = 'jobId="job_003" OR jobId="job_900" OR state=PREPARING OR startTime>="{since}" OR endTime>"{since}"'


@pytest.fixture(scope="module")
def database() -> Iterator[sa.Engine]:
    engine = open_database("sqlite://")
    with writing(engine).begin() as connection:
        connection.execute(
            sa.insert(jobs), [_row(project, place) for project in "pq" for place in range(300)]
        )
    yield engine
    engine.dispose()


def _row(project: str, place: int) -> dict[str, Any]:
    state, created_us = _STATES[place % len(_STATES)], _START_US + place * 1_000_000
    return {
        "uid": f"{project}{place}",
        "project": project,
        "job_id": f"job_{place:03d}",
        "labels": {},
        "request": {},
        "state": state,
        "priority": 0,
        "created_us": created_us,
        "running_us": None if state in ("QUEUED", "PREPARING") else created_us + 1,
        "ended_us": created_us + 2 if state in ("SUCCEEDED", "FAILED") else None,
        "study_uid": "a_study" if place % 7 == 0 else "",
    }


def found(database: sa.Engine, condition: sa.ColumnElement[bool]) -> list[str]:
    with database.connect() as connection:
        query = sa.select(jobs.c.uid).where(condition).order_by(jobs.c.sequence)
        return [row.uid for row in connection.execute(query)]


@pytest.mark.parametrize(
    "filter_text",
    [
        CHANGES.format(since=from_us(_START_US + 290_000_000).isoformat()),
        "jobId=job_001 OR jobId=job_002",
        "state=RUNNING OR state=QUEUED OR jobId=job_004",
        f'endTime>"{from_us(_START_US + 290_000_000).isoformat()}" OR jobId=nobody',
    ],
)
def test_the_answer_is_that_of_the_plain_condition(database: sa.Engine, filter_text: str) -> None:
    tree = parse_filter(filter_text)
    assert tree is not None

    condition = any_of("p", tree, ML_V1.filter_fields)

    assert condition is not None
    plain = sa.and_(is_job, jobs.c.project == "p", plain_condition(tree, ML_V1.filter_fields))
    assert found(database, condition) == found(database, plain) != []


@pytest.mark.parametrize(
    "filter_text",
    [
        "",
        "jobId=job_001",
        "state=SUCCEEDED OR jobId=job_001",  # half of all jobs may be so
        "jobId:part OR jobId=job_001",
        "labels.a=b OR jobId=job_001",
        'createTime>"2026-01-01T00:00:00Z" OR jobId=job_001',
        "jobId=job_001 OR NOT state=RUNNING",
        "jobId=job_001 AND state=RUNNING",
    ],
)
def test_what_no_index_finds_is_left_to_others(filter_text: str) -> None:
    assert any_of("p", parse_filter(filter_text), ML_V1.filter_fields) is None


def test_no_job_is_looked_at_that_is_not_in_the_answer(database: sa.Engine) -> None:
    condition = any_of(
        "p", parse_filter(CHANGES.format(since=from_us(_START_US).isoformat())), ML_V1.filter_fields
    )
    assert condition is not None
    query = sa.select(jobs).where(condition).order_by(jobs.c.created_us.desc()).limit(101)
    text = query.compile(database, compile_kwargs={"literal_binds": True})

    with database.connect() as connection:
        plan = [str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]

    assert "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)" in plan
    assert not [step for step in plan if step.startswith("SCAN jobs") or step.endswith("(project=?)")]
