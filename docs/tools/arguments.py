"""
The arguments of an operator or a function.

From its signature, with what its docstring says of each.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from airflow.sdk import BaseOperator, BaseSensorOperator

#: Classes of Airflow: the arguments that every task has are in Airflow's own documentation.
_AIRFLOWS_OWN = frozenset({*BaseOperator.__mro__, *BaseSensorOperator.__mro__})
_FIELD = re.compile(r"^:(\w+)(?: (\w+))?:\s*", re.MULTILINE)
#: Said once for all arguments of an operator, from its ``template_fields``.
_TEMPLATED = re.compile(r"\s*\(templated\)")
_MIB = 2**20
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """
    A docstring in its parts.

    :param text: what stands before the fields.
    :param params: what is said of each argument.
    :param outcome: what is returned and raised, as a pair of title and text.
    """

    text: str
    params: dict[str, str]
    outcome: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """
    One argument.

    :param default: ``required``, ``optional``, ``default X``, or empty where Airflow gives it.
    """

    name: str
    default: str
    text: str


def docstring_of(described: Any) -> Docstring:
    """Return the docstring of a class or function in its parts: text, arguments, outcome."""
    doc = inspect.cleandoc(described.__doc__ or "")
    fields = list(_FIELD.finditer(doc))
    bounds = [*(field.start() for field in fields), len(doc)]
    params, outcome = {}, []
    for field, end in zip(fields, bounds[1:], strict=True):
        kind, name, text = field[1], field[2], _TEMPLATED.sub("", " ".join(doc[field.end() : end].split()))
        if kind == "param":
            params[name] = text
        else:
            outcome.append((f"Raises `{name}`:" if kind == "raises" else "Returns", text))
    return Docstring(text=doc[: bounds[0]], params=params, outcome=outcome)


def arguments_of(described: Any, *, stop_at: Container[str]) -> list[Argument]:
    """
    Return the arguments in the order of the signatures, those of the class itself first.

    :param stop_at: names of bases whose arguments are left out, unless ``described`` is one of them.
    :raises LookupError: an argument that no docstring describes.
    """
    owners = [
        owner
        for owner in _owners(described)
        if owner is described or getattr(owner, "__name__", "") not in stop_at
    ]
    texts: dict[str, str] = {}
    for owner in reversed(owners):
        texts |= docstring_of(owner).params
    found = {
        name: _default(parameter)
        for owner in owners
        for name, parameter in _parameters(owner)
        if name in texts or not _is_rest(parameter)
    }
    if missing := sorted(set(found) - set(texts)):
        raise LookupError(f"{described.__name__}: no docstring says what is {', '.join(missing)}")
    inherited = {name: "" for name in docstring_of(described).params if name not in found}
    return [
        Argument(name=name, default=default, text=texts[name])
        for name, default in {**found, **inherited}.items()
    ]


def bases_of(described: Any, names: Container[str]) -> list[str]:
    """Return those bases of a class whose arguments are listed elsewhere."""
    return [
        owner.__name__ for owner in _owners(described) if owner is not described and owner.__name__ in names
    ]


def untemplated_arguments(described: Any, arguments: list[Argument]) -> list[str] | None:
    """Return the arguments that no template may be given for; ``None`` for what is no operator."""
    fields = getattr(described, "template_fields", None)
    if fields is None:
        return None
    # ``dry_run`` is a method of every operator; the argument of that name is kept under another one.
    known = {*fields, *(field.removeprefix("is_") for field in fields)}
    return [argument.name for argument in arguments if argument.default and argument.name not in known]


def _owners(described: Any) -> list[Any]:
    """Return what brings arguments: a function, or this project's classes with an ``__init__``."""
    if not inspect.isclass(described):
        return [described]
    return [
        base
        for base in described.__mro__
        if base not in _AIRFLOWS_OWN and ("__init__" in vars(base) or base is described)
    ]


def _parameters(owner: Any) -> Iterator[tuple[str, inspect.Parameter]]:
    if inspect.isclass(owner) and "__init__" not in vars(owner):
        return
    function = owner.__init__ if inspect.isclass(owner) else owner
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in ("self", "kwargs"):
            yield name, parameter


def _is_rest(parameter: inspect.Parameter) -> bool:
    return parameter.kind is inspect.Parameter.VAR_KEYWORD


def _default(parameter: inspect.Parameter) -> str:
    if _is_rest(parameter):
        return "optional"
    if parameter.default is inspect.Parameter.empty:
        return "required"
    if parameter.default is None:
        return "optional"
    return f"default {_value(parameter.default)}"


def _value(value: Any) -> str:
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple | list) and not value:
        return "none"
    if isinstance(value, int) and value >= _MIB and value % _MIB == 0:
        return _size(value)
    return f"`{value!r}`"


def _size(value: int) -> str:
    return f"{value // _GIB} GiB" if value % _GIB == 0 else f"{value // _MIB} MiB"


def _duration(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds % length == 0:
            count = seconds // length
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds} seconds"
