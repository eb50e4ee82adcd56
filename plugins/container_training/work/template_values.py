"""
Numbers, flags, times and outputs of tasks among an operator's rendered arguments.

A template gives text (``"5"``, ``"True"``), or, where the DAG has ``render_template_as_native_obj``, what
that text would be in Python. Empty text is what a template makes of a parameter that is not set.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
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
        raise InvalidArgument(f"{name} must be true or false, got {value!r}; write True or False")
    return _FLAGS[text]


def number(name: str, value: Any) -> float:
    """Return ``value`` as a finite number. :raises InvalidArgument: it is none."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise InvalidArgument(f"{name} must be a number, got {value!r}; write it in digits, like 2.5")
    return found


def whole_number(name: str, value: Any) -> int:
    """Return ``value`` as a whole number, digit by digit. :raises InvalidArgument: it is none."""
    text = str(value).strip()
    try:
        return int(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{name} must be a whole number, got {value!r}; write it in digits, like 10"
        ) from error


def seconds(name: str, value: Any) -> float:
    """Return a time, or a number of seconds, as seconds. :raises InvalidArgument: it is neither."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return number(name, value)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{name} must be a number of seconds, got {value!r}; write 90 or timedelta(minutes=1.5)"
        ) from error


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
        raise InvalidArgument(
            f"{name} must be the output of {task}, got {shown(value)}: {problems(error)}; pass the .output of "
            "that task"
        ) from None


def made(kind: type[_Output], **fields: Any) -> _Output:
    """Return a value made of arguments. :raises InvalidArgument: one of them breaks a rule."""
    try:
        return kind(**fields)
    except ValidationError as error:
        raise InvalidArgument(f"{problems(error)}; correct the argument") from None


def problems(error: ValidationError) -> str:
    """Return what is wrong with a value, by field, in words of a person's own terms."""
    return "; ".join(
        f"{'.'.join(map(str, detail['loc']))} {problem(detail)}".lstrip() for detail in error.errors()
    )


def problem(detail: Any) -> str:
    """Return the rule that a field breaks, and its value: ``must be less than 1, got 5``."""
    if detail["type"] == "missing":
        return "is missing"
    if detail["type"] == "extra_forbidden":
        return f"is unknown, got {shown(detail['input'])}"
    rule = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{rule.partition(', unable to parse')[0]}, got {shown(detail['input'])}"


def shown(value: Any) -> str:
    """Return ``value`` as a message shows it, cut if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Return ``value``, or nothing, as a dictionary. :raises InvalidArgument: it is none."""
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{name} must be a mapping, got {shown(value)}; write {{'NAME': 'VALUE'}}")
    return dict(value)


def shell_words(name: str, text: str) -> list[str]:
    """Split ``text`` as a shell would. :raises InvalidArgument: a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{name} must be words as a shell reads them, got {shown(text)}: {error}; close the quote, or give "
            "a list of words"
        ) from None


def connections(name: str, value: Any, *, at_least: int = 0) -> list[str]:
    """Return ids of connections, each once. :raises InvalidArgument: it is no list of them."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str) and len(value) >= at_least
    if not is_list or not all(isinstance(each, str) and not is_unset(each) for each in value):
        raise InvalidArgument(
            f"{name} must be a list of connections, got {shown(value)}; give their ids, like "
            "['training_default', 'training_vertex']"
        )
    return list(dict.fromkeys(value))


def require_known(owner: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse arguments that ``owner`` does not have. :raises InvalidArgument: the first one."""
    for name, value in given.items():
        if name not in known:
            close = get_close_matches(name, known, n=1)
            way_out = f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(known))}"
            raise InvalidArgument(f"{owner} has no argument {name}, got {name}={shown(value)}; {way_out}")


def is_unset(value: Any) -> bool:
    """Whether ``value`` stands for no value: ``None``, or what a template makes of it."""
    return value is None or (isinstance(value, str) and value.strip() in ("", "None"))
