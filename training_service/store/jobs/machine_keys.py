"""The machines of a job as one text, by which queries group jobs, and what such a text stands for."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.job.roles import OTHER_ROLES, ROLES
from training_service.store.jobs.stored_spec import UNREADABLE, read_request
from training_service.store.sql.json_sql import JsonObject
from training_service.store.sql.series_sql import at_once
from training_service.store.tables import jobs

_FIELDS = (
    "scaleTier",
    *(f"{role.wire}Type" for role in ROLES),
    *(f"{role.wire}Count" for role in OTHER_ROLES),
)
_CONFIGS = tuple(f"{role.wire}Config" for role in ROLES)
_ACCELERATOR = "acceleratorConfig"
#: Between the fields; no machine type has it.
_END = "\x1f"
#: What a job holds of a machine; names of :class:`Machines`' fields.
KINDS = ("cpus", "memory_bytes", "gpus", "replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """
    What one run on a set of machines holds, and costs per second.

    :param name: the master's machine type.
    :param rate: ``None``: it has no price.
    """

    name: str
    cpus: float
    memory_bytes: float
    gpus: float
    replicas: float
    rate: float | None


def machines_key() -> sa.ColumnElement[str]:
    """Return the expression that is equal for jobs on the same machines."""
    request = JsonObject(jobs.c.training_input)
    found = [
        *(request[name].as_string() for name in _FIELDS),
        *(request[name, _ACCELERATOR].as_string() for name in _CONFIGS),
    ]
    fields = [sa.func.coalesce(field, sa.literal("", sa.Text)) for field in found]
    return functools.reduce(operator.add, (part for field in fields for part in (field, sa.literal(_END))))


def machines_of_key(key: str) -> TrainingInput:
    """Return a request for the machines of ``key``. Pure."""
    parts = key.split(_END)
    fields: dict[str, Any] = dict(zip(_FIELDS, parts, strict=False))
    for name, text in zip(_CONFIGS, parts[len(_FIELDS) :], strict=False):
        fields[name] = {_ACCELERATOR: _accelerator(text)} if text else ""
    return read_request({name: value for name, value in fields.items() if value})


def _accelerator(text: str) -> Any:
    try:
        return json.loads(text)
    except UNREADABLE:
        return None


def table_of(machines: Mapping[str, Machines]) -> sa.CTE:
    """Return ``machines`` as a table with their keys; however many, they are one parameter."""
    values = {
        key: {name: getattr(each, name) for name in Machines.__slots__} for key, each in machines.items()
    }
    given = sa.func.json_each(sa.literal(values, sa.JSON())).table_valued(
        "key", sa.column("value", sa.JSON), name="machines"
    )
    numbers = (given.c.value[name].as_float().label(name) for name in (*KINDS, "rate"))
    return at_once(sa.select(given.c.key, given.c.value["name"].as_string().label("name"), *numbers), "sizes")
