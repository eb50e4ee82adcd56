"""Filters (``training_api/dialects/ml_v1/filters.py``) as SQL: which fields may be asked for, and how each is compared."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from training_api.dialects.ml_v1.filters import And, Comparison, Filter, Not, Or
from training_api.errors import InvalidFilter
from training_service.store.database import to_us

#: Builds the condition for one comparison.
FieldSql = Callable[[Comparison], sa.ColumnElement[bool]]
_ORDERING: Mapping[str, Callable[[Any, Any], sa.ColumnElement[bool]]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}
_HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def filter_to_sql(
    tree: Filter, fields: Mapping[str, FieldSql], prefixes: Mapping[str, Callable[[str], FieldSql]]
) -> sa.ColumnElement[bool]:
    """
    Return the WHERE condition of ``tree``.

    :param fields: field path -> condition builder.
    :param prefixes: map fields, such as ``labels.``: prefix -> builder of the builder for one key.
    :raises InvalidFilter: an unknown field, or a value that does not fit it.
    """
    match tree:
        case And(operands):
            return sa.and_(*(filter_to_sql(operand, fields, prefixes) for operand in operands))
        case Or(operands):
            return sa.or_(*(filter_to_sql(operand, fields, prefixes) for operand in operands))
        case Not(operand):
            return sa.not_(filter_to_sql(operand, fields, prefixes))
        case Comparison(path=path):
            if path in fields:
                return fields[path](tree)
            for prefix, builder in prefixes.items():
                if path.startswith(prefix):
                    return builder(path.removeprefix(prefix))(tree)
    known = ", ".join([*fields, *(f"{prefix}KEY" for prefix in prefixes)])
    raise InvalidFilter(f"a filter cannot ask for {tree.path!r}; it can for {known}")


def text_field(column: sa.ColumnElement[Any]) -> FieldSql:
    """Text: ``=`` and ``!=`` are exact, ``:`` finds a part (case-insensitive), the others compare as text."""

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        if comparison.op == ":":
            if comparison.value == "*":
                return column.is_not(None)
            return sa.func.lower(column).contains(comparison.value.lower(), autoescape=True)
        return _ORDERING[comparison.op](column, comparison.value)

    return build


def constant_field(value: str) -> FieldSql:
    """A field that has the same value in every row."""

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        return text_field(sa.literal(value))(comparison)

    return build


def time_field(column: sa.ColumnElement[int]) -> FieldSql:
    """A column of microseconds since the epoch, compared with RFC 3339 timestamps (finer digits are cut)."""

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        if comparison.op not in _ORDERING:
            raise InvalidFilter(
                f"{comparison.path!r} is a time and cannot be compared with {comparison.op!r}"
            )
        try:
            moment = datetime.fromisoformat(comparison.value)
        except ValueError as error:
            raise InvalidFilter(
                f"{comparison.path!r} needs an RFC 3339 time like '2026-01-31T12:00:00Z', got {comparison.value!r}"
            ) from error
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _ORDERING[comparison.op](column, to_us(aware))

    return build


def rank_field(column: sa.ColumnElement[str], ranks: Mapping[str, int]) -> FieldSql:
    """
    A column of names that have an order, compared by it; the value may be a name (any case) or a rank.

    :param ranks: every name that the column may have, and its place in the order.
    """

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        if comparison.op not in _ORDERING:
            return text_field(column)(comparison)
        name = comparison.value.upper()
        if name not in ranks and not comparison.value.isdecimal():
            raise InvalidFilter(
                f"{comparison.path!r} must be compared with one of {', '.join(ranks)}, got {comparison.value!r}"
            )
        value = ranks[name] if name in ranks else int(comparison.value)
        holds = [each for each, rank in ranks.items() if _HOLDS[comparison.op](rank, value)]
        return column.in_(holds)

    return build


def json_field(column: sa.ColumnElement[Any], path: str) -> FieldSql:
    """A value within a JSON column by its dotted path: compared as a number with a number, else as text."""

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        element = column[tuple(path.split("."))]
        try:
            number = float(comparison.value)
        except ValueError:
            return text_field(element.as_string())(comparison)
        if comparison.op in ("<", "<=", ">", ">="):
            return _ORDERING[comparison.op](element.as_float(), number)
        return text_field(element.as_string())(comparison)

    return build
