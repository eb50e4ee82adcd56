"""A filter of ml.v1's list of jobs, applied to rows in memory. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase

from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.errors import InvalidFilter
from training_api.filtering import ORDERINGS, And, Comparison, Filter, Not, Or, moment_of, shortened

_LABELS = "labels."
_FIELDS = "jobId, displayName, state, createTime and labels.KEY"


def matches(tree: Filter | None, row: JobRow) -> bool:
    """
    Tell whether a row is asked for.

    :param tree: as ``parse_filter`` returns it; ``None``: all rows are.
    :raises InvalidFilter: it compares what a row cannot be compared by.
    """
    match tree:
        case None:
            return True
        case And(operands):
            return all(matches(each, row) for each in operands)
        case Or(operands):
            return any(matches(each, row) for each in operands)
        case Not(operand):
            return not matches(operand, row)
        case Comparison():
            return _holds(tree, row)


def _holds(asked: Comparison, row: JobRow) -> bool:
    if asked.path.startswith(_LABELS):
        key = asked.path.removeprefix(_LABELS)
        return (
            key in row.labels
            if (asked.op, asked.value) == (":", "*")
            else _text(asked, row.labels.get(key, ""))
        )
    if asked.path == "jobId":
        return _text(asked, row.job_id)
    if asked.path == "displayName":
        return _text(asked, row.display_name)
    if asked.path == "state":
        return _text(asked, row.state)
    if asked.path == "createTime" and asked.op in ORDERINGS:
        return bool(ORDERINGS[asked.op](row.create_time, moment_of(asked)))
    raise InvalidFilter(
        f"jobs can be chosen by {_FIELDS}, got {shortened(f'{asked.path}{asked.op}{asked.value}')!r}"
    )


def _text(asked: Comparison, value: str) -> bool:
    """``:`` asks for a part; a ``*`` in it stands for anything."""
    if asked.op == ":":
        return fnmatchcase(value, f"*{asked.value}*".replace("[", "[[]").replace("?", "[?]"))
    if asked.op in ("=", "!="):
        return bool(ORDERINGS[asked.op](value, asked.value))
    raise InvalidFilter(f"{asked.path!r} is compared by = != or :, got {asked.op!r}")
