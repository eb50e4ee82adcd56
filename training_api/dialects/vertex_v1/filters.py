"""
The filters of lists: which fields they know, and how each may be compared. Pure.

The language is that of ``filtering.py``. Source: the parameter ``filter`` of each list in the discovery
document. Names may be in snake_case, as there, and in camelCase [code: google-cloud-aiplatform, jobs.py].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from training_api.dialects.vertex_v1.job_states import JOB_STATES
from training_api.errors import InvalidFilter
from training_api.filtering import And, Comparison, Filter, Not, Or, parse_filter, shortened

_LABELS = "labels."
_SPELLINGS = {
    "displayName": "display_name",
    "createTime": "create_time",
    "trainingTaskDefinition": "training_task_definition",
}
LABEL_OPERATORS = {_LABELS: ("=", "!=", ":")}
#: Of each field: how it may be compared.
OPERATORS: Mapping[str, tuple[str, ...]] = {
    "display_name": ("=", "!=", ":"),
    "state": ("=", "!="),
    "create_time": ("=", "!=", "<", "<=", ">", ">="),
    **LABEL_OPERATORS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterWords:
    """
    What the filters of one list may ask for.

    :param operators: of each field, how it may be compared.
    :param states: the words for states, and what they are in ``states.py``.
    :param never: words for states in which nothing here ever is; a filter may ask for them.
    """

    operators: Mapping[str, tuple[str, ...]]
    states: Mapping[str, str]
    never: frozenset[str]


OF_JOBS = FilterWords(
    operators=OPERATORS,
    states={word: state.value for state, word in JOB_STATES.items()},
    never=frozenset(
        {"JOB_STATE_PAUSED", "JOB_STATE_EXPIRED", "JOB_STATE_UPDATING", "JOB_STATE_PARTIALLY_SUCCEEDED"}
        | {"JOB_STATE_UNSPECIFIED"}
    ),
)


def read_filter(text: str, words: FilterWords = OF_JOBS) -> Filter | None:
    """
    Return the tree of a filter, in neutral words.

    Fields are named in snake_case, and states as ``states.py`` has them. ``None``: everything matches.

    :param words: of the list that is filtered.
    :raises InvalidFilter: it cannot be read, or asks for what a list cannot be asked for.
    """
    tree = parse_filter(text)
    return None if tree is None else _neutral(tree, words)


def _neutral(tree: Filter, words: FilterWords) -> Filter:
    match tree:
        case And(operands):
            return And(tuple(_neutral(each, words) for each in operands))
        case Or(operands):
            return Or(tuple(_neutral(each, words) for each in operands))
        case Not(operand):
            return Not(_neutral(operand, words))
        case Comparison():
            return _comparison(tree, words)


def _comparison(asked: Comparison, words: FilterWords) -> Comparison:
    if (asked.path, asked.op) == ("labels", ":"):  # labels:key, as of any map
        return Comparison(f"{_LABELS}{asked.value}", ":", "*")
    path = _SPELLINGS.get(asked.path, asked.path)
    operators = words.operators.get(_LABELS if path.startswith(_LABELS) else path)
    if operators is None:
        *others, _ = words.operators
        known = f"{', '.join(others)} and {_LABELS}KEY"
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
    value = _state(asked.value, words) if path == "state" else asked.value
    return Comparison(path, asked.op, value)


def _state(word: str, words: FilterWords) -> str:
    if word in words.never:
        return word
    if word not in words.states:
        raise InvalidFilter(f"'state' must be one of {', '.join(words.states)}, got {shortened(word)!r}")
    return words.states[word]
