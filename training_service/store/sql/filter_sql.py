"""
Filters (``training_api/filtering.py``) as SQL.

Says which fields may be asked for, and how each is compared.

A comparison with a field that an entry does not have is false, ``!=`` too; ``NOT`` of it is true. Source:
cloud.google.com/logging/docs/view/logging-query-language, "Missing fields". In SQL such a comparison is NULL.
A condition without NOT takes NULL for false by itself, so that an index serves; ``NOT`` says so explicitly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from training_api.errors import InvalidFilter
from training_api.filtering import ORDERINGS, And, Comparison, Filter, Not, Or, moment_of, shortened
from training_service.store.database import to_us
from training_service.store.sql.json_sql import JsonValue

#: SQLite takes patterns of at most 50,000 bytes, and the time of a search grows with them.
MAX_PART = 1000
#: In a pattern: each multiplies the places at which a database may look.
MAX_WILDCARDS = 10
#: A number as JSON writes it. ``float`` alone would also read "nan", "1_000" and other scripts' digits.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
#: Numbers of severities have three digits.
_RANK = re.compile(r"[0-9]{1,9}", re.ASCII)
#: SQLAlchemy puts keys into a path between double quotes as they are.
_NO_KEY = re.compile(r'["\\]')
#: Builds the condition for one comparison.
FieldSql = Callable[[Comparison], sa.ColumnElement[bool]]
_CONDITIONS: Mapping[str, Callable[[Any, Any], sa.ColumnElement[bool]]] = ORDERINGS


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
            return sa.not_(sa.func.coalesce(filter_to_sql(operand, fields, prefixes), sa.false()))
        case Comparison(path=path):
            if path in fields:
                return fields[path](tree)
            for prefix, builder in prefixes.items():
                if path.startswith(prefix):
                    return builder(_checked_key(path, prefix))(tree)
    known = ", ".join([*fields, *(f"{prefix}KEY" for prefix in prefixes)])
    raise InvalidFilter(f"a filter cannot ask for {shortened(tree.path)!r}; it can for {known}")


def _checked_key(path: str, prefix: str) -> str:
    key = path.removeprefix(prefix)
    if _NO_KEY.search(key):
        raise InvalidFilter(
            f"a key in a filter must not have double quotes or backslashes, got {shortened(key)!r} "
            f"after {prefix!r}; compare another field"
        )
    return key


def text_field(column: sa.ColumnElement[Any], default: str | None = None) -> FieldSql:
    """
    Compare text: ``=`` and ``!=`` exactly, ``:`` by a part (in any case), others by order.

    :param default: what NULL is compared as; ``None``: the field is absent then. ``:*`` finds no NULL in
        either case.
    """
    compared = column if default is None else sa.func.coalesce(column, default)

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        value = comparison.value
        if comparison.op == ":":
            return column.is_not(None) if value == "*" else _contains(compared, comparison)
        if comparison.op in ("=", "!="):
            return _CONDITIONS[comparison.op](compared, value)
        return _CONDITIONS[comparison.op](InCodePoints(compared), value)

    return build


def pattern_field(column: sa.ColumnElement[Any]) -> FieldSql:
    """
    Compare text as :func:`text_field` does, but ``:`` by a pattern.

    In a pattern ``*`` stands for any text.

    A pattern without ``*`` is the whole text [unverified].
    """
    exactly = text_field(column)

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        if comparison.op != ":":
            return exactly(comparison)
        if comparison.value.count("*") > MAX_WILDCARDS:
            raise InvalidFilter(
                f"text after '{comparison.path}:' must have at most {MAX_WILDCARDS} '*', "
                f"got {comparison.value.count('*')}; compare a part of it"
            )
        return _is_like(column, comparison, _escaped(comparison.value).replace("*", "%"))

    return build


class InCodePoints(sa.sql.functions.GenericFunction[str]):
    """Text that is compared by code points, whatever the language of the database."""

    type = sa.Text()
    inherit_cache = True
    name = "in_code_points"


@compiles(InCodePoints)
def _as_it_is(element: Any, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(InCodePoints, "postgresql")
def _collated(element: Any, compiler: Any, **options: Any) -> str:
    return f'(({compiler.process(element.clauses, **options)}) COLLATE "C")'


def _contains(column: sa.ColumnElement[Any], comparison: Comparison) -> sa.ColumnElement[bool]:
    return _is_like(column, comparison, f"%{_escaped(comparison.value)}%")


def _escaped(text: str) -> str:
    return re.sub(r"([/%_])", r"/\1", text)


def _is_like(column: sa.ColumnElement[Any], comparison: Comparison, pattern: str) -> sa.ColumnElement[bool]:
    if len(comparison.value) > MAX_PART:
        raise InvalidFilter(
            f"text after '{comparison.path}:' must be at most {MAX_PART} characters, "
            f"got {len(comparison.value)}; compare a part of it"
        )
    # The database lowers both, A to Z only: databases differ in other letters.
    lowered = sa.func.lower(InCodePoints(sa.literal(pattern)))
    return sa.func.lower(InCodePoints(column)).like(lowered, escape="/")


def constant_field(value: str) -> FieldSql:
    """A field that has the same value in every row."""

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        return text_field(sa.literal(value))(comparison)

    return build


def time_field(column: sa.ColumnElement[int]) -> FieldSql:
    """A column of microseconds since the epoch, compared with RFC 3339 times (truncated digits)."""

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        if comparison.op not in _CONDITIONS:
            raise InvalidFilter(
                f"{comparison.path!r} is a time and cannot be compared with {comparison.op!r}"
            )
        return _CONDITIONS[comparison.op](column, to_us(moment_of(comparison)))

    return build


def rank_field(column: sa.ColumnElement[str], ranks: Mapping[str, int]) -> FieldSql:
    """
    A column of ordered names; the value may be a name (any case) or a rank.

    :param ranks: every name that the column may have -> its rank.
    """

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        if comparison.op not in _CONDITIONS:
            return text_field(column)(comparison)
        value = _rank(comparison, ranks)
        holds = [each for each, rank in ranks.items() if ORDERINGS[comparison.op](rank, value)]
        return column.in_(holds)

    return build


def _rank(comparison: Comparison, ranks: Mapping[str, int]) -> int:
    name = comparison.value.upper()
    if name in ranks:
        return ranks[name]
    if _RANK.fullmatch(comparison.value):
        return int(comparison.value)
    raise InvalidFilter(
        f"{comparison.path!r} must be compared with one of {', '.join(ranks)}, or with a number of at most "
        f"9 digits, got {shortened(comparison.value)!r}"
    )


def json_field(column: sa.ColumnElement[Any], path: str) -> FieldSql:
    """
    A value within a JSON column by its dotted path.

    A number is compared as a number: it differs from any value that is not one, and ``:`` is ``=``.
    Everything else is compared as text. A null counts as absent.
    """

    def build(comparison: Comparison) -> sa.ColumnElement[bool]:
        found = JsonValue(column, tuple(path.split(".")))
        as_text = text_field(found.text)(comparison)
        if comparison.op == ":" and comparison.value == "*":
            return as_text
        if _NUMBER.fullmatch(comparison.value):
            compare = _CONDITIONS["=" if comparison.op == ":" else comparison.op]
            as_number = compare(found.number, float(comparison.value))
        else:
            as_number = sa.literal(comparison.op == "!=")
        return sa.case((found.is_number, as_number), else_=as_text)

    return build
