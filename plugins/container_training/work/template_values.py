"""
Numbers, flags, times and outputs of tasks among an operator's rendered arguments.

A template gives text (``"5"``, ``"True"``), or, where the DAG has ``render_template_as_native_obj``, what
that text would be in Python. Empty text is what a template makes of a parameter that is not set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from training_api.errors import InvalidArgument

_Output = TypeVar("_Output", bound=BaseModel)
_SHOWN_CHARACTERS = 200
_FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False, "none": False}


class TaskOutput(Protocol):
    """
    The output of another task, Airflow's ``XComArg``, as an argument of a task in a DAG.

    Airflow replaces it by its value before the task runs.
    """

    def iter_references(self) -> Iterator[tuple[Any, str]]:
        """Yield the tasks that it stands for, and the keys of their outputs."""
        ...


def flag(name: str, value: Any) -> bool:
    """
    Return ``value`` as a flag; nothing and empty text are ``False``.

    :raises InvalidArgument: it is not a flag.
    """
    text = "" if value is None else str(value).strip().lower()
    if text not in _FLAGS:
        raise InvalidArgument(f"{name} must be true or false, got {value!r}")
    return _FLAGS[text]


def number(name: str, value: Any) -> float:
    """Return ``value`` as a finite number. :raises InvalidArgument: it is none."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise InvalidArgument(f"{name} must be a number, got {value!r}")
    return found


def whole_number(name: str, value: Any) -> int:
    """Return ``value`` as a whole number, digit by digit. :raises InvalidArgument: it is none."""
    text = str(value).strip()
    try:
        return int(text)
    except ValueError as error:
        raise InvalidArgument(f"{name} must be a whole number, got {value!r}") from error


def seconds(name: str, value: Any) -> float:
    """Return a time, or a number of seconds, as seconds. :raises InvalidArgument: it is neither."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return number(name, value)
    except InvalidArgument as error:
        raise InvalidArgument(f"{name} must be a number of seconds, got {value!r}") from error


def output_of(task: str, name: str, kind: type[_Output], value: Any) -> _Output:
    """
    Return an argument that is the output of another task.

    :param task: the operator whose output it is.
    :param name: of the argument.
    :raises InvalidArgument: it is something else.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        got = repr(value)
        got = got if len(got) <= _SHOWN_CHARACTERS else f"{got[:_SHOWN_CHARACTERS]}..."
        raise InvalidArgument(
            f"{name} must be the output of {task}, got {got}: {f'{place}: ' if place else ''}{first['msg']}"
        ) from None


def is_unset(value: Any) -> bool:
    """Whether ``value`` stands for no value: ``None``, or what a template makes of it."""
    return value is None or (isinstance(value, str) and value.strip() in ("", "None"))
