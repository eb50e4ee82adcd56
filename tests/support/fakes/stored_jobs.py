"""Rows of the table of jobs, written by a test in any state and at any time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.dialects.ml_v1.roles import machines_of
from training_api.job.machines import MACHINE_TYPES
from training_service.model.job_machines import RoleMachines
from training_service.store.database import to_us, writing
from training_service.store.jobs.stored_spec import FORM
from training_service.store.tables import jobs

_MASTER = {"scaleTier": "CUSTOM", "masterType": "n1-standard-4"}


def machines_in(request: dict[str, Any]) -> tuple[RoleMachines, ...]:
    """Return the machines of a ``trainingInput``, be they known or not."""
    found = []
    for role in machines_of(TrainingInput.model_validate(request)):
        added = role.config.accelerator_config if role.config else None
        machine = MACHINE_TYPES.get(role.machine)
        gpus, gpu = (added.count or 0, str(added.type or "")) if added else (0, "")
        if machine and machine.gpus:
            gpus, gpu = machine.gpus, str(machine.gpu)
        found.append(RoleMachines(machine=role.machine, count=role.count, gpus=gpus, gpu=gpu))
    return tuple(each for each in found if each.count > 0)


def store_job(
    database: sa.Engine, job_id: str, created_us: int, training_input: Any = _MASTER, **columns: Any
) -> None:
    """
    Write a job of one master, or a trial; ``columns`` are those that differ.

    :param training_input: its request; one that is no object has no specification.
    """
    row = {
        "uid": f"uid-{job_id}",
        "project": "p",
        "job_id": job_id,
        "labels": {},
        "request": training_input,
        "spec": _spec(training_input) if isinstance(training_input, dict) else {"unreadable": "no object"},
        "state": "QUEUED",
        "priority": 0,
        "created_us": created_us,
    }
    with writing(database).begin() as connection:
        connection.execute(sa.insert(jobs).values(**(row | columns)))


def _spec(request: dict[str, Any]) -> dict[str, Any]:
    """Return what queries read of a stored specification."""
    roles = [
        {"machine": role.machine, "count": role.count, "gpus": role.gpus, "gpu": role.gpu or None}
        for role in machines_in(request)
    ]
    return {"form": FORM, "roles": roles, "study": {} if request.get("hyperparameters") else None}


def store_row(database: sa.Engine, row: JobRow) -> None:
    """Write the job that a search shows as ``row``."""
    store_job(
        database,
        row.job_id,
        to_us(row.create_time),
        state=row.state.value,
        labels=row.labels,
        training_input=row.training_input.to_wire(),
        preparing_us=_us(row.prepare_time),
        running_us=_us(row.start_time),
        ended_us=_us(row.end_time),
        reason=row.reason.to_wire() if row.reason else {},
    )


def _us(moment: datetime | None) -> int | None:
    return None if moment is None else to_us(moment)
