"""
What brings the tables of the version before to a version. New tables are made anyway, with all their columns.

A migration names the columns that it needs by itself: it must do the same when today's tables have changed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from training_api.dialects.ml_v1.resources import Job
from training_api.job.job_spec import JobSpec, accepted_job_spec
from training_api.job.tuning.trial_spec import trial_spec
from training_service.store.stored_spec import UNREADABLE, read_request, spec_to_json, waits_until_us

#: Rows that are read, and written, at once.
_ROWS_AT_ONCE = 1000


def _to_2(connection: sa.Connection) -> None:
    """Several images a job, restarts, and an outcome that is written before the job has ended."""
    _add_column(connection, "jobs", "images", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "jobs", "attempts", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "jobs", "outcome", "VARCHAR(16) NOT NULL DEFAULT ''")
    connection.exec_driver_sql("ALTER TABLE jobs DROP COLUMN image_id")


def _to_3(connection: sa.Connection) -> None:
    """Trials."""
    _add_column(connection, "jobs", "study_uid", "VARCHAR(32) NOT NULL DEFAULT ''")
    _add_column(connection, "jobs", "trial", "JSON NOT NULL DEFAULT '{}'")


def _to_4(connection: sa.Connection) -> None:
    """Reasons with a cause, and the digest of what was pulled. Messages from before have no cause: it is unknown."""
    _add_column(connection, "jobs", "reason", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "spans", "pinned", "TEXT NOT NULL DEFAULT ''")


def _to_5(connection: sa.Connection) -> None:
    """What a job runs beside what was asked for, and until when it may wait. Before, both were derived at each reading."""
    _add_column(connection, "jobs", "spec", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "jobs", "waits_until_us", "BIGINT")
    last = 0
    while rows := _jobs_of_4(connection, last):
        for row in rows:
            connection.execute(
                sa.update(_JOBS_5).where(_JOBS_5.c.sequence == row.sequence).values(_decided(row))
            )
        last = rows[-1].sequence


_JOBS_5 = sa.table(
    "jobs",
    *(sa.column(name) for name in ("sequence", "project", "job_id", "created_us", "study_uid")),
    sa.column("waits_until_us"),
    *(sa.column(name, sa.JSON) for name in ("training_input", "trial", "spec")),
)


def _jobs_of_4(connection: sa.Connection, after: int) -> list[Any]:
    _c = _JOBS_5.c
    columns = (_c.sequence, _c.project, _c.job_id, _c.created_us, _c.study_uid, _c.training_input, _c.trial)
    query = sa.select(*columns).where(_c.sequence > after).order_by(_c.sequence).limit(_ROWS_AT_ONCE)
    return list(connection.execute(query))


def _decided(row: Any) -> dict[str, Any]:
    """Return the new columns of a job; a trial's request is its own from now on. What cannot be read says why."""
    try:
        spec = _spec_of(row)
    except UNREADABLE as error:
        return {"spec": {"unreadable": str(error) or repr(error)}}
    values = {"spec": spec_to_json(spec), "waits_until_us": waits_until_us(row.created_us, spec)}
    return values | ({"training_input": spec.training_input.to_wire()} if row.study_uid else {})


def _spec_of(row: Any) -> JobSpec:
    trial = row.trial if row.study_uid else None
    request = read_request(row.training_input)
    job = Job(job_id=trial["job_id"] if trial else row.job_id, training_input=request)
    spec = accepted_job_spec(row.project, job)
    return trial_spec(spec, trial["number"], trial["hyperparameters"]) if trial else spec


#: Version -> what brings the tables of the version before to it. One transaction each.
MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {2: _to_2, 3: _to_3, 4: _to_4, 5: _to_5}
#: Grows when the tables change; a service refuses a database that is newer than itself.
SCHEMA_VERSION = max(MIGRATIONS)


def _add_column(connection: sa.Connection, table: str, name: str, definition: str) -> None:
    """Add a column, unless the whole table is new and has it."""
    if name not in {column["name"] for column in sa.inspect(connection).get_columns(table)}:
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {definition}")
