"""The fields of log entries that a filter may ask for, as SQL over ``log_lines``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from training_api.cloud_logging import JOB_RESOURCE_TYPE, Severity
from training_api.filtering import And, Comparison, Filter
from training_service.store.logs.insert_ids import NO_PLACE
from training_service.store.sql.filter_sql import (
    FieldSql,
    constant_field,
    filter_to_sql,
    json_field,
    rank_field,
    text_field,
    time_field,
)
from training_service.store.tables import log_jobs, log_lines, log_streams

TRIAL_LABEL = "ml.googleapis.com/trial_id"
TASK_LABEL = "ml.googleapis.com/task_name"
JOB_LABEL = "ml.googleapis.com/job_id"
_JOB_FIELDS = ("resource.labels.job_id", f"labels.{JOB_LABEL}")
_c = log_lines.c


class _Digits(FunctionElement[str]):
    """A number that is not negative, padded with zeros."""

    inherit_cache = True
    type = sa.String()


@compiles(_Digits)
def _with_lpad(element: Any, compiler: Any, **options: Any) -> str:
    number, width = (compiler.process(each, **options) for each in element.clauses)
    text = f"CAST({number} AS VARCHAR)"
    return f"lpad({text}, greatest(length({text}), {width}), '0')"


@compiles(_Digits, "sqlite")
def _with_printf(element: Any, compiler: Any, **options: Any) -> str:
    number, width = (compiler.process(each, **options) for each in element.clauses)
    return f"printf('%0*d', {width}, {number})"


def _digits(number: sa.ColumnElement[int], width: int) -> sa.ColumnElement[str]:
    return _Digits(number, sa.literal_column(str(width)))


def _insert_id() -> sa.ColumnElement[str]:
    """What ``insert_ids.join_insert_id`` returns."""
    mark = sa.literal("-trial", sa.Text) + log_streams.c.trial_id + sa.literal(".", sa.Text)
    of_trial = sa.select(mark).where(log_streams.c.id == _c.stream, log_streams.c.trial_id != "")
    at_ns = _c.timestamp_us * 1000 + _c.offset_ns
    whole = _digits(at_ns, 20) + sa.literal("-", sa.Text) + _digits(_c.place, 6)
    whole = whole + sa.func.coalesce(of_trial.scalar_subquery(), "") + _c.suffix
    return sa.case((_c.place == NO_PLACE, _c.suffix), else_=whole)


def _stream_field(column: sa.ColumnElement[Any]) -> FieldSql:
    """A field that all lines of a stream share."""
    compare = text_field(column)
    streams = sa.select(log_streams.c.id).join(log_jobs, log_jobs.c.id == log_streams.c.log_job)
    return lambda comparison: _c.stream.in_(streams.where(compare(comparison)))


def _job_field(column: sa.ColumnElement[Any]) -> FieldSql:
    """A field that all lines of a job share."""
    compare = text_field(column)
    return lambda comparison: _c.log_job.in_(sa.select(log_jobs.c.id).where(compare(comparison)))


_SEVERITY = sa.case({each.number: each.value for each in Severity}, value=_c.severity)
_JOB, _TASK = _job_field(log_jobs.c.job_id), _stream_field(log_streams.c.task_name)
_FIELDS: Mapping[str, FieldSql] = {
    "resource.type": constant_field(JOB_RESOURCE_TYPE),
    "resource.labels.job_id": _JOB,
    "resource.labels.task_name": _TASK,
    "resource.labels.project_id": _job_field(log_jobs.c.project),
    "labels.task_name": _TASK,
    f"labels.{TASK_LABEL}": _TASK,
    f"labels.{JOB_LABEL}": _JOB,
    # The label is absent from lines that are not of a trial.
    f"labels.{TRIAL_LABEL}": _stream_field(sa.func.nullif(log_streams.c.trial_id, "")),
    "timestamp": time_field(_c.timestamp_us),
    "receiveTimestamp": time_field(_c.received_us),
    "insertId": text_field(_insert_id()),
    "severity": rank_field(_SEVERITY, {severity.value: severity.number for severity in Severity}),
    # "If the field is defined in the LogEntry type, then the field is defaulted" (the query language's page).
    "textPayload": text_field(_c.text_payload, default=""),
    "logName": _stream_field(
        sa.literal("projects/", sa.Text)
        + log_jobs.c.project
        + sa.literal("/logs/", sa.Text)
        + log_streams.c.task_name
    ),
}
_PREFIXES: Mapping[str, Callable[[str], FieldSql]] = {
    "jsonPayload.": lambda key: json_field(_c.json_payload, key),
}


def log_condition(tree: Filter) -> sa.ColumnElement[bool]:
    """
    Return ``tree`` as a condition on ``log_lines``.

    :raises InvalidFilter: an unknown field, or a wrong value.
    """
    return filter_to_sql(tree, _FIELDS, _PREFIXES)


def log_keys(projects: Sequence[str], tree: Filter | None) -> tuple[sa.Select[tuple[int]], bool]:
    """
    Return the query for the ``log_jobs`` that a filter may find, and whether they are few.

    A filter for one job, as nearly all are, is answered in the order of that job's index.
    """
    query = sa.select(log_jobs.c.id).where(log_jobs.c.project.in_(projects))
    names = _names(tree)
    return (query.where(log_jobs.c.job_id.in_(names)), True) if names else (query, False)


def _names(tree: Filter | None) -> list[str]:
    """Return the job ids for which the filter asks; if there are several, all must hold."""
    match tree:
        case And(operands):
            return next((names for operand in operands if (names := _names(operand))), [])
        case Comparison(path=path, op="=", value=value) if path in _JOB_FIELDS:
            return [value]
    return []
