"""The machines of a job as one text, by which queries group jobs, and what it stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from training_api.job.cluster import ReplicaRole
from training_service.model.job_machines import RoleMachines
from training_service.store.sql.json_sql import JsonObject, json_values
from training_service.store.sql.series_sql import at_once
from training_service.store.tables import jobs

#: What one run holds on its machines, and costs per second; ``rate`` may be ``None``: they have no price.
KINDS = ("cpus", "memoryBytes", "gpus", "replicas")
#: By key: ``name``, of the master's machine type, :data:`KINDS` and ``rate``.
Machines = Mapping[str, Mapping[str, Any]]
#: What a stored specification says of a role's machines.
_FIELDS = ("machine", "count", "gpus", "gpu")
_PATHS = tuple(("roles", place, name) for place in range(len(ReplicaRole)) for name in _FIELDS)


def machines_key() -> sa.ColumnElement[str]:
    """Return the expression that is equal for jobs on the same machines."""
    return json_values(JsonObject(jobs.c.spec), _PATHS)


def machines_of_key(key: str) -> tuple[RoleMachines, ...]:
    """Return the machines of ``key``, the master's first; none of an unreadable job. Pure."""
    values = json.loads(key)
    return tuple(
        RoleMachines(machine=machine, count=count, gpus=gpus, gpu=gpu or "")
        for machine, count, gpus, gpu in (
            values[at : at + len(_FIELDS)] for at in range(0, len(values), len(_FIELDS))
        )
        if isinstance(machine, str) and isinstance(count, int) and isinstance(gpus, int)
    )


def table_of(machines: Machines) -> sa.CTE:
    """Return ``machines`` as a table with their keys; however many, they are one parameter."""
    given = sa.func.json_each(sa.literal(machines, sa.JSON())).table_valued(
        "key", sa.column("value", sa.JSON), name="machines"
    )
    numbers = (given.c.value[name].as_float().label(name) for name in (*KINDS, "rate"))
    return at_once(sa.select(given.c.key, given.c.value["name"].as_string().label("name"), *numbers), "sizes")
