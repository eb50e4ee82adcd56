"""Which jobs of a project a list shows, in what order: the condition, the pages, the tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from training_api.filtering import Filter
from training_api.job.dialect import JobField
from training_api.job.labels import DAG_LABEL
from training_service.model.paging import foreign_token
from training_service.store.sql.any_of import any_of
from training_service.store.sql.filter_sql import (
    FieldSql,
    filter_to_sql,
    pattern_field,
    text_field,
    time_field,
)
from training_service.store.sql.json_sql import JsonObject
from training_service.store.tables import is_job, jobs

#: A page token: when the page's last job was created, and its sequence. 18 digits fit into 64 bits.
_TOKEN = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_ORDER = (jobs.c.created_us, jobs.c.sequence)
_FIELDS: dict[JobField, FieldSql] = {
    JobField.JOB_ID: text_field(jobs.c.job_id),
    JobField.DISPLAY_NAME: pattern_field(JsonObject(jobs.c.request)["displayName"].as_string()),
    JobField.STATE: text_field(jobs.c.state),
    JobField.CREATED: time_field(jobs.c.created_us),
    JobField.STARTED: time_field(jobs.c.running_us),
    JobField.ENDED: time_field(jobs.c.ended_us),
}


def wanted_jobs(project: str, tree: Filter | None, names: Mapping[str, JobField]) -> sa.ColumnElement[bool]:
    """
    Return the condition for the jobs of ``project`` that match ``tree``.

    :param names: what the filter calls the fields.
    :raises InvalidFilter: it asks for what there is not.
    """
    wanted = any_of(project, tree, names)
    if wanted is not None:
        return wanted
    condition = sa.true() if tree is None else plain_condition(tree, names)
    return sa.and_(is_job, jobs.c.project == project, condition)


def plain_condition(tree: Filter, names: Mapping[str, JobField]) -> sa.ColumnElement[bool]:
    """
    Return the condition of ``tree`` alone.

    :raises InvalidFilter: a field or a value is unknown.
    """
    fields = {name: _FIELDS[field] for name, field in names.items() if field in _FIELDS}
    maps = {name: label_field for name, field in names.items() if field is JobField.LABELS}
    return filter_to_sql(tree, fields, maps)


def in_region(region: str) -> sa.ColumnElement[bool]:
    """Return the condition that a job is said to run in ``region``."""
    condition: sa.ColumnElement[bool] = JsonObject(jobs.c.spec)["region"].as_string() == region
    return condition


def is_study(tunes: bool) -> sa.ColumnElement[bool]:
    """Return the condition that a job tunes, or that it does not."""
    study: sa.ColumnElement[str] = JsonObject(jobs.c.spec)["study"].as_string()
    return study.is_not(None) if tunes else study.is_(None)


def label_field(key: str) -> FieldSql:
    """Return the builder of conditions on the label ``key``."""
    return text_field(jobs.c.labels[key].as_string())


def of_dags(dags: Sequence[str] | None) -> sa.ColumnElement[bool]:
    """
    Return the condition for the jobs whose label names one of ``dags``.

    :param dags: one parameter, however many there are; ``None``: all jobs.
    """
    if dags is None:
        return sa.true()
    names = sa.func.json_each(sa.literal(dict.fromkeys(dags), sa.JSON())).table_valued("key", name="dags")
    dag: sa.ColumnElement[str] = JsonObject(jobs.c.labels)[DAG_LABEL].as_string()
    return dag.in_(sa.select(names.c.key))


def newest_first(query: sa.Select[Any], page_size: int, page_token: str) -> sa.Select[Any]:
    """
    Return ``query`` in the list's order, from ``page_token`` on, with one row extra.

    :raises InvalidRequest: the token is invalid.
    """
    if page_token:
        query = query.where(sa.tuple_(*_ORDER) < sa.tuple_(*_read_token(page_token)))
    return query.order_by(*(column.desc() for column in _ORDER)).limit(page_size + 1)


def one_page(rows: list[Any], page_size: int) -> tuple[list[Any], str]:
    """Split what ``newest_first`` found: the page, and the next page's token (empty: none)."""
    page = rows[:page_size]
    token = f"{page[-1].created_us}-{page[-1].sequence}" if page and len(rows) > page_size else ""
    return page, token


def _read_token(token: str) -> tuple[int, int]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise foreign_token(token)
    return int(match[1]), int(match[2])
