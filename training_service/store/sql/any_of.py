"""
Filters with alternatives that an index finds: ``jobId=a OR jobId=b OR endTime>="..."``.

Clients that wait for many jobs send such a filter at every poll. A database that reads the list in its order
would check each job of the project; SQLite does, as it cannot know that only few match.
"""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa

from training_api.dialects.ml_v1.filters import Comparison, Filter, Or
from training_api.states import TERMINAL
from training_service.store.sql.filter_sql import time_field
from training_service.store.tables import is_job, jobs

_TIMES = {"startTime": jobs.c.running_us, "endTime": jobs.c.ended_us}
_EQUAL = {"jobId": jobs.c.job_id, "state": jobs.c.state}
#: Most jobs are in one of these states, so their index does not narrow the search.
TERMINAL_VALUES = frozenset(state.value for state in TERMINAL)


def any_of(project: str, tree: Filter | None) -> sa.ColumnElement[bool] | None:
    """
    Return the condition for the jobs of ``project`` that match ``tree``, by indices alone.

    Pure.

    :return: ``None``: ``tree`` is not of this kind.
    :raises InvalidFilter: a time cannot be read.
    """
    if not isinstance(tree, Or):
        return None
    conditions: list[sa.ColumnElement[bool]] = []
    equal: dict[str, list[str]] = defaultdict(list)
    for operand in tree.operands:
        match operand:
            case Comparison(path=("jobId" | "state") as path, op="=", value=value):
                if value in TERMINAL_VALUES and path == "state":
                    return None
                equal[path].append(value)
            case Comparison(path=("startTime" | "endTime") as path, op=">" | ">="):
                conditions.append(time_field(_TIMES[path])(operand))
            case _:
                return None
    conditions += [_EQUAL[path].in_(values) for path, values in equal.items()]
    # By the key, without naming the project: else SQLite takes the index of the list's order.
    found = (sa.select(jobs.c.sequence).where(is_job, jobs.c.project == project, each) for each in conditions)
    return jobs.c.sequence.in_(sa.union(*found))
