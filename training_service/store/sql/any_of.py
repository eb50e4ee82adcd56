"""
Filters with alternatives that an index finds: ``jobId=a OR jobId=b OR endTime>="..."``.

Clients that wait for many jobs send such a filter at every poll. A database that reads the list in its order
would check each job of the project; SQLite does, as it cannot know that only few match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import sqlalchemy as sa

from training_api.filtering import Comparison, Filter, Or
from training_api.job.dialect import JobField
from training_api.states import TERMINAL
from training_service.store.sql.filter_sql import time_field
from training_service.store.tables import is_job, jobs

_TIMES = {JobField.STARTED: jobs.c.running_us, JobField.ENDED: jobs.c.ended_us}
_EQUAL = {JobField.JOB_ID: jobs.c.job_id, JobField.STATE: jobs.c.state}
#: Most jobs are in one of these states, so their index does not narrow the search.
TERMINAL_VALUES = frozenset(state.value for state in TERMINAL)


def any_of(project: str, tree: Filter | None, names: Mapping[str, JobField]) -> sa.ColumnElement[bool] | None:
    """
    Return the condition for the jobs of ``project`` that match ``tree``, by indices alone.

    Pure.

    :param names: what the filter calls the fields.
    :return: ``None``: ``tree`` is not of this kind.
    :raises InvalidFilter: a time cannot be read.
    """
    if not isinstance(tree, Or):
        return None
    conditions: list[sa.ColumnElement[bool]] = []
    equal: dict[JobField, list[str]] = defaultdict(list)
    for operand in tree.operands:
        field = names.get(operand.path) if isinstance(operand, Comparison) else None
        match operand:
            case Comparison(op="=", value=value) if field in _EQUAL:
                if value in TERMINAL_VALUES and field is JobField.STATE:
                    return None
                equal[field].append(value)
            case Comparison(op=">" | ">=") if field in _TIMES:
                conditions.append(time_field(_TIMES[field])(operand))
            case _:
                return None
    conditions += [_EQUAL[field].in_(values) for field, values in equal.items()]
    # By the key, without naming the project: else SQLite takes the index of the list's order.
    found = (sa.select(jobs.c.sequence).where(is_job, jobs.c.project == project, each) for each in conditions)
    return jobs.c.sequence.in_(sa.union(*found))
