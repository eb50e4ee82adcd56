"""
Migrations: each brings the tables from the version before to its own.

New tables are made anyway, with all their columns. A migration itself names the columns that it needs,
because it must do the same after later changes of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from training_api.dialects.ml_v1.reader import accepted_job_spec, read_request
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.ml_v1.trial_spec import trial_of
from training_api.job.job_spec import JobSpec
from training_service.store.jobs.stored_spec import UNREADABLE, mapping_of, spec_to_json, waits_until_us
from training_service.store.logs.log_takeover import note_takeover
from training_service.store.upgrade.form_2 import to_form_2

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
    """Reasons with a cause, unknown for older messages, and the digests of pulled images."""
    _add_column(connection, "jobs", "reason", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "spans", "pinned", "TEXT NOT NULL DEFAULT ''")


def _to_5(connection: sa.Connection) -> None:
    """A job's specification, and its waiting limit. Before, both were derived at each reading."""
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
    """Return a job's new columns, with a trial's request; if it is unreadable, they say why."""
    try:
        spec, request = _spec_of(row)
    except UNREADABLE as error:
        return {"spec": {"unreadable": str(error) or repr(error)}}
    values = {"spec": spec_to_json(spec), "waits_until_us": waits_until_us(row.created_us, spec)}
    return values | ({"training_input": request} if row.study_uid else {})


def _spec_of(row: Any) -> tuple[JobSpec, dict[str, Any]]:
    trial = row.trial if row.study_uid else None
    asked = read_request(mapping_of(row.training_input))
    job = Job(job_id=trial["job_id"] if trial else row.job_id, training_input=asked)
    spec, request = accepted_job_spec(row.project, job), asked.to_wire()
    return trial_of(spec, request, trial["number"], trial["hyperparameters"]) if trial else (spec, request)


def _to_6(connection: sa.Connection) -> None:
    """Log lines with their container, without their job's names; ``log_takeover.py`` moves them."""
    if sa.inspect(connection).has_table("log_entries"):
        note_takeover(connection)


def _to_7(connection: sa.Connection) -> None:
    """When a job of each DAG and model last succeeded, from the existing jobs."""
    _c = _JOBS_7.c
    ended = sa.and_(_c.state == "SUCCEEDED", _c.study_uid == "", _c.ended_us.is_not(None))
    newest: dict[tuple[str, str], int] = {}
    # Not grouped by the database: SQLite stops at a row whose labels are not JSON.
    for labels, ended_us in connection.execute(sa.select(_c.labels, _c.ended_us).where(ended)):
        known = labels if isinstance(labels, dict) else {}
        pair = (str(known.get("airflow-dag", "")), str(known.get("model", "")))
        newest[pair] = max(ended_us, newest.get(pair, 0))
    rows = [{"dag": dag, "model": model, "ended_us": at} for (dag, model), at in newest.items()]
    connection.execute(sa.delete(_LAST_SUCCESSES_7))
    if rows:
        connection.execute(sa.insert(_LAST_SUCCESSES_7), rows)


_JOBS_7 = sa.table(
    "jobs",
    *(sa.column(name) for name in ("state", "study_uid", "ended_us")),
    sa.column("labels", sa.JSON),
)
_LAST_SUCCESSES_7 = sa.table("last_successes", *(sa.column(name) for name in ("dag", "model", "ended_us")))


#: Text that had a maximal length, which PostgreSQL enforces, or a language's order.
_TEXTS_8 = {
    "meta": ("key", "value"),
    "jobs": ("uid", "project", "job_id", "state", "error_message", "outcome", "study_uid"),
    "policies": ("resource",),
    "log_entries": ("project", "job_id", "task_name", "trial_id", "insert_id", "severity", "text_payload"),
    "log_jobs": ("project", "job_id"),
    "log_streams": ("task_name", "trial_id", "container"),
    "log_lines": ("suffix", "text_payload"),
    "last_successes": ("dag", "model"),
    "measurements": ("job_uid", "source", "tag"),
    "spans": ("job_uid", "kind", "name", "attempt", "pinned"),
    "usage_samples": ("job_uid", "task_name"),
    "gpu_samples": ("job_uid", "task_name"),
    "refusals": ("job_uid", "work"),
}


def _to_8(connection: sa.Connection) -> None:
    """Text of any length in the order of code points; in SQLite it always was."""
    if connection.dialect.name == "sqlite":
        return
    present = set(sa.inspect(connection).get_table_names())
    for table, names in _TEXTS_8.items():
        # Lines of version 5 and older, which are moved later, are compared with those of today.
        if table in present:
            changes = ", ".join(f'ALTER COLUMN {name} TYPE TEXT COLLATE "C"' for name in names)
            connection.exec_driver_sql(f"ALTER TABLE {table} {changes}")


def _to_9(connection: sa.Connection) -> None:
    """Jobs of several dialects, with specifications that are read without the request."""
    _add_column(connection, "jobs", "dialect", f"{_text(connection)} NOT NULL DEFAULT 'ml_v1'")
    if "training_input" in _columns(connection, "jobs"):
        connection.exec_driver_sql("ALTER TABLE jobs RENAME COLUMN training_input TO request")
    _c = _JOBS_9.c
    last = 0
    while rows := list(
        connection.execute(
            sa.select(_c.sequence, _c.request, _c.spec)
            .where(_c.sequence > last)
            .order_by(_c.sequence)
            .limit(_ROWS_AT_ONCE)
        )
    ):
        changed = [
            {"key": row.sequence, "form_2": to_form_2(row.spec, mapping_of(row.request))}
            for row in rows
            if mapping_of(row.spec).get("form") == 1
        ]
        if changed:
            update = sa.update(_JOBS_9).where(_c.sequence == sa.bindparam("key"))
            connection.execute(update.values(spec=sa.bindparam("form_2")), changed)
        last = rows[-1].sequence


_JOBS_9 = sa.table("jobs", sa.column("sequence"), *(sa.column(name, sa.JSON) for name in ("request", "spec")))


def _to_10(connection: sa.Connection) -> None:
    """
    Pipelines and models, whose tables are made anyway.

    A service of version 9 would move the jobs of pipelines and not write their ends: it must refuse.
    """
    del connection


#: Version -> its migration from the version before. All in one transaction.
MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {
    2: _to_2,
    3: _to_3,
    4: _to_4,
    5: _to_5,
    6: _to_6,
    7: _to_7,
    8: _to_8,
    9: _to_9,
    10: _to_10,
}
#: Grows when the tables change; a service refuses a database that is newer than itself.
SCHEMA_VERSION = max(MIGRATIONS)


def _add_column(connection: sa.Connection, table: str, name: str, definition: str) -> None:
    """Add a column, unless the whole table is new and has it."""
    if name not in _columns(connection, table):
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {definition}")


def _columns(connection: sa.Connection, table: str) -> set[str]:
    return {column["name"] for column in sa.inspect(connection).get_columns(table)}


def _text(connection: sa.Connection) -> str:
    """Return the type of text in the order of code points."""
    return "TEXT" if connection.dialect.name == "sqlite" else 'TEXT COLLATE "C"'
