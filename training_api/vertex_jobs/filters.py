"""
A filter of ml.v1's list of jobs in the words of Vertex AI's lists. Pure.

Both have the syntax of ``filtering.py``; the fields and how each may be compared differ. A value is always
written as a quoted text, so that no value can be read as more than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from training_api.dialects.vertex_v1.filters import OPERATORS
from training_api.dialects.vertex_v1.job_states import JOB_STATES
from training_api.errors import InvalidFilter
from training_api.filtering import (
    And,
    Comparison,
    Filter,
    Not,
    Or,
    moment_of,
    parse_filter,
    quoted,
    shortened,
)
from training_api.wire import format_timestamp

_LABELS = "labels."
_KEY = re.compile(r"[a-z][a-z0-9_-]*")
_FIELDS = "jobId, state, createTime and labels.KEY"


def vertex_filter(text: str) -> str:
    """
    Return what asks Vertex AI's lists for the jobs that ``text`` asks ml.v1's for.

    Empty: for all.

    :raises InvalidFilter: it cannot be read, or asks for what these lists cannot be asked for.
    """
    tree = parse_filter(text)
    return "" if tree is None else _written(tree)


def _written(tree: Filter) -> str:
    match tree:
        case And(operands):
            return f"({' AND '.join(map(_written, operands))})"
        case Or(operands):
            return f"({' OR '.join(map(_written, operands))})"
        case Not(operand):
            return f"(NOT {_written(operand)})"
        case Comparison():
            return _comparison(tree)


def _comparison(asked: Comparison) -> str:
    if asked.path.startswith(_LABELS):
        return _label(asked)
    if asked.path not in _WRITERS:
        raise InvalidFilter(
            f"Vertex AI's lists cannot be asked for {shortened(asked.path)!r}; they can for {_FIELDS}: leave it "
            "out, and choose among the jobs that are answered"
        )
    field, value_of = _WRITERS[asked.path]
    _check_operator(asked, OPERATORS[field])
    return f"{field}{asked.op}{value_of(asked)}"


def _label(asked: Comparison) -> str:
    if not _KEY.fullmatch(asked.path.removeprefix(_LABELS)):
        raise InvalidFilter(
            f"the key of a label must start with a-z and hold only [a-z0-9_-], got {shortened(asked.path)!r}"
        )
    _check_operator(asked, OPERATORS[_LABELS])
    if asked.op != ":":
        return f"{asked.path}{asked.op}{quoted(asked.value)}"
    if asked.value != "*":
        raise InvalidFilter(
            f"after '{shortened(asked.path)}:' Vertex AI's lists take only '*', which asks whether there is such a "
            f"label, got {shortened(asked.value)!r}; compare its value by ="
        )
    return f"{asked.path}:*"


def _check_operator(asked: Comparison, operators: tuple[str, ...]) -> None:
    if asked.op not in operators:
        raise InvalidFilter(
            f"Vertex AI's lists compare {shortened(asked.path)!r} by one of {' '.join(operators)}, got "
            f"{asked.op!r}; change the operator"
        )


def _name(asked: Comparison) -> str:
    """Return a name; ``:`` asks for a part of it, which is a pattern there."""
    if asked.op != ":":
        return quoted(asked.value)
    if asked.value == "*":
        return "*"
    if "*" in asked.value:
        raise InvalidFilter(f"a part of a jobId must have no '*', got {shortened(asked.value)!r}")
    return quoted(f"*{asked.value}*")


def _state(asked: Comparison) -> str:
    words = {state.value: word for state, word in JOB_STATES.items()}
    if asked.value not in words:
        raise InvalidFilter(f"'state' must be one of {', '.join(words)}, got {shortened(asked.value)!r}")
    return quoted(words[asked.value])


def _moment(asked: Comparison) -> str:
    return quoted(format_timestamp(moment_of(asked)))


#: Field of ml.v1 -> that of Vertex AI, and how a value of it is written.
_WRITERS: Mapping[str, tuple[str, Callable[[Comparison], str]]] = {
    "jobId": ("display_name", _name),
    "state": ("state", _state),
    "createTime": ("create_time", _moment),
}
