"""The machines of a job as one text, by which queries group jobs, and what it stands for."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.job.roles import OTHER_ROLES, ROLES
from training_service.store.jobs.stored_spec import read_request
from training_service.store.sql.json_sql import JsonObject
from training_service.store.sql.series_sql import at_once
from training_service.store.tables import jobs

#: What one run holds on its machines, and costs per second; ``rate`` may be ``None``: they have no price.
KINDS = ("cpus", "memoryBytes", "gpus", "replicas")
#: By key: ``name``, of the master's machine type, :data:`KINDS` and ``rate``.
Machines = Mapping[str, Mapping[str, Any]]
_FIELDS = (
    ("scaleTier",),
    *((f"{role.wire}Type",) for role in ROLES),
    *((f"{role.wire}Count",) for role in OTHER_ROLES),
)
_ACCELERATORS = tuple((f"{role.wire}Config", "acceleratorConfig") for role in ROLES)
#: After each field; no machine type has it.
_END = "\x1f"


def machines_key() -> sa.ColumnElement[str]:
    """Return the expression that is equal for jobs on the same machines."""
    request, empty = JsonObject(jobs.c.training_input), sa.literal("", sa.Text)
    fields = (sa.func.coalesce(request[path].as_string(), empty) for path in (*_FIELDS, *_ACCELERATORS))
    return functools.reduce(operator.add, (part for field in fields for part in (field, sa.literal(_END))))


def machines_of_key(key: str) -> TrainingInput:
    """Return a request for the machines of ``key``. Pure."""
    parts = dict(zip((*_FIELDS, *_ACCELERATORS), key.split(_END), strict=False))
    fields: dict[str, Any] = {path[0]: parts[path] for path in _FIELDS if parts[path]}
    # The database returns objects as their JSON; whatever else a row has there is read as no accelerator.
    given = {path: parts[path] for path in _ACCELERATORS if parts[path].startswith("{")}
    return read_request(fields | {path[0]: {path[1]: json.loads(text)} for path, text in given.items()})


def table_of(machines: Machines) -> sa.CTE:
    """Return ``machines`` as a table with their keys; however many, they are one parameter."""
    given = sa.func.json_each(sa.literal(machines, sa.JSON())).table_valued(
        "key", sa.column("value", sa.JSON), name="machines"
    )
    numbers = (given.c.value[name].as_float().label(name) for name in (*KINDS, "rate"))
    return at_once(sa.select(given.c.key, given.c.value["name"].as_string().label("name"), *numbers), "sizes")
