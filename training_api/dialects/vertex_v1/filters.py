"""
The filters of lists: which fields they know, and how each may be compared. Pure.

The language is that of ``filtering.py``. Source: the parameter ``filter`` of each list in the discovery
document. Names may be in snake_case, as there, and in camelCase [code: google-cloud-aiplatform, jobs.py].
"""

from __future__ import annotations

from collections.abc import Mapping

from training_api.dialects.vertex_v1.job_states import JOB_STATES
from training_api.errors import InvalidFilter
from training_api.filtering import And, Comparison, Filter, Not, Or, parse_filter, shortened

_LABELS = "labels."
_SPELLINGS = {"displayName": "display_name", "createTime": "create_time"}
#: Of each field: how it may be compared.
OPERATORS: Mapping[str, tuple[str, ...]] = {
    "display_name": ("=", "!=", ":"),
    "state": ("=", "!="),
    "create_time": ("=", "!=", "<", "<=", ">", ">="),
    _LABELS: ("=", "!=", ":"),
}
_WORDS = {word: state.value for state, word in JOB_STATES.items()}
#: States that no job here is ever in. A filter may ask for them.
_NEVER = frozenset(
    {"JOB_STATE_PAUSED", "JOB_STATE_EXPIRED", "JOB_STATE_UPDATING", "JOB_STATE_PARTIALLY_SUCCEEDED"}
    | {"JOB_STATE_UNSPECIFIED"}
)


def read_filter(text: str) -> Filter | None:
    """
    Return the tree of a filter, in neutral words.

    Fields are named in snake_case, and states as ``states.py`` has them. ``None``: everything matches.

    :raises InvalidFilter: it cannot be read, or asks for what a list cannot be asked for.
    """
    tree = parse_filter(text)
    return None if tree is None else _neutral(tree)


def _neutral(tree: Filter) -> Filter:
    match tree:
        case And(operands):
            return And(tuple(_neutral(each) for each in operands))
        case Or(operands):
            return Or(tuple(_neutral(each) for each in operands))
        case Not(operand):
            return Not(_neutral(operand))
        case Comparison():
            return _comparison(tree)


def _comparison(asked: Comparison) -> Comparison:
    if (asked.path, asked.op) == ("labels", ":"):  # labels:key, as of any map
        return Comparison(f"{_LABELS}{asked.value}", ":", "*")
    path = _SPELLINGS.get(asked.path, asked.path)
    operators = OPERATORS.get(_LABELS if path.startswith(_LABELS) else path)
    if operators is None:
        known = "display_name, state, create_time and labels.KEY"
        raise InvalidFilter(f"a filter cannot ask for {shortened(asked.path)!r}; it can for {known}")
    if asked.op not in operators:
        raise InvalidFilter(
            f"{asked.path!r} must be compared by one of {' '.join(operators)}, got {asked.op!r}; change the operator"
        )
    if path.startswith(_LABELS) and asked.op == ":" and asked.value != "*":
        raise InvalidFilter(
            f"after '{shortened(asked.path)}:' a filter must have '*', which asks whether there is such a label, "
            f"got {shortened(asked.value)!r}; compare its value by ="
        )
    value = _state(asked.value) if path == "state" else asked.value
    return Comparison(path, asked.op, value)


def _state(word: str) -> str:
    if word in _NEVER:
        return word
    if word not in _WORDS:
        raise InvalidFilter(f"'state' must be one of {', '.join(_WORDS)}, got {shortened(word)!r}")
    return _WORDS[word]
