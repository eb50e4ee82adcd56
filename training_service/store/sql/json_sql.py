"""Values within a column of JSON, in SQL that SQLite and PostgreSQL understand alike."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import Grouping

#: The databases' names for numbers: SQLite's are the first two, PostgreSQL's the last.
_NUMBERS = ("integer", "real", "number")


class _Kind(sa.sql.functions.FunctionElement[str]):
    """The JSON type of ``column[path]``; NULL where there is nothing."""

    type = sa.String()
    name = "json_kind"
    inherit_cache = True


@compiles(_Kind, "sqlite")
def _kind_in_sqlite(element: _Kind, compiler: Any, **options: Any) -> str:
    (value,) = element.clauses
    found: Any = value.element if isinstance(value, Grouping) else value
    column, path = (compiler.process(part, **options) for part in (found.left, found.right))
    return f"json_type({column}, {path})"


@compiles(_Kind, "postgresql")
def _kind_in_postgresql(element: _Kind, compiler: Any, **options: Any) -> str:
    return f"json_typeof({compiler.process(element.clauses, **options)})"


class _Double(sa.sql.functions.FunctionElement[float]):
    """A number as a double. Its two clauses: the number as the driver reads it, and its text."""

    type = sa.Float()
    name = "json_double"
    inherit_cache = True


@compiles(_Double)
def _double(element: _Double, compiler: Any, **options: Any) -> str:
    as_double, _ = element.clauses
    return str(compiler.process(as_double, **options))


@compiles(_Double, "postgresql")
def _double_in_postgresql(element: _Double, compiler: Any, **options: Any) -> str:
    # An integer of 400 digits would fail the whole query; in SQLite it is infinite.
    _, text = element.clauses
    number = f"CAST({compiler.process(text, **options)} AS NUMERIC)"
    return (
        f"CASE WHEN abs({number}) <= {sys.float_info.max!r} THEN CAST({number} AS DOUBLE PRECISION)"
        f" WHEN {number} > 0 THEN DOUBLE PRECISION 'Infinity' ELSE DOUBLE PRECISION '-Infinity' END"
    )


class JsonObject(sa.sql.functions.FunctionElement[Any]):
    """
    A column of JSON, with an empty object for whatever is no object.

    One such row must not stop a report.
    """

    type = sa.JSON()
    name = "json_object_of"
    inherit_cache = True


@compiles(JsonObject, "sqlite")
def _object_in_sqlite(element: JsonObject, compiler: Any, **options: Any) -> str:
    column = compiler.process(element.clauses, **options)
    is_object = f"CASE WHEN json_type({column}) = 'object' THEN {column} ELSE '{{}}' END"
    return f"(CASE WHEN json_valid({column}) THEN {is_object} ELSE '{{}}' END)"


@compiles(JsonObject, "postgresql")
def _object_in_postgresql(element: JsonObject, compiler: Any, **options: Any) -> str:
    column = compiler.process(element.clauses, **options)
    return f"(CASE WHEN json_typeof({column}) = 'object' THEN {column} ELSE '{{}}' END)"


class _JsonValues(sa.sql.functions.FunctionElement[str]):
    """Values as the text of a JSON array. Its two clauses: in SQLite, and in PostgreSQL."""

    type = sa.Text()
    name = "json_values"
    inherit_cache = True


@compiles(_JsonValues, "sqlite")
def _values_in_sqlite(element: _JsonValues, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses.clauses[0], **options))


@compiles(_JsonValues, "postgresql")
def _values_in_postgresql(element: _JsonValues, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses.clauses[1], **options))


def json_values(
    column: sa.ColumnElement[Any], paths: Sequence[tuple[str | int, ...]]
) -> sa.ColumnElement[str]:
    """Return the values at ``paths`` as the text of one JSON array, null for what is not there."""
    quoted = (
        "$" + "".join(f"[{key}]" if isinstance(key, int) else f'."{key}"' for key in path) for path in paths
    )
    array = sa.func.json_build_array(*(column[path] for path in paths))
    return _JsonValues(sa.func.json_extract(column, *quoted), sa.cast(array, sa.Text))


class JsonValue:
    """
    One value of a column of JSON.

    :param path: the keys that lead to it.
    """

    def __init__(self, column: sa.ColumnElement[Any], path: tuple[str, ...]) -> None:
        self._element: Any = column[path]
        self._kind = _Kind(self._element)

    @property
    def is_number(self) -> sa.ColumnElement[bool]:
        """Whether it is a number; NULL where there is nothing."""
        return self._kind.in_(_NUMBERS)

    @property
    def number(self) -> Any:
        """The value as a double; PostgreSQL needs ``is_number`` to be checked first (CASE)."""
        return _Double(self._element.as_float(), self._element.as_string())

    @property
    def text(self) -> sa.ColumnElement[str]:
        """The value as text, ``true`` and ``false`` by name; NULL where there is nothing, or null."""
        # SQLite extracts booleans as 1 and 0, but calls their types by these names.
        return sa.case((self._kind.in_(("true", "false")), self._kind), else_=self._element.as_string())
