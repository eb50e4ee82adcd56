"""Pipelines in the database, with the state of their jobs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from training_api.filtering import Filter
from training_api.states import TERMINAL, JobState
from training_service.model.pipelines import PipelineRecord
from training_service.model.reasons import Reason
from training_service.store.database import from_us, writing
from training_service.store.jobs.job_rows import moment_of, state_of
from training_service.store.jobs.stored_spec import mapping_of
from training_service.store.pipelines.pages import read_page
from training_service.store.sql.filter_sql import (
    FieldSql,
    filter_to_sql,
    pattern_field,
    text_field,
    time_field,
)
from training_service.store.sql.json_sql import JsonObject
from training_service.store.tables import jobs, pipelines

_c = pipelines.c
_has_ended = _c.state != ""
_STATE = sa.case((_has_ended, _c.state), else_=sa.func.coalesce(jobs.c.state, JobState.FAILED.value))
_STARTED = sa.case((_has_ended, _c.started_us), else_=jobs.c.preparing_us)
#: Of the columns that the row has itself, those that say more than how its job ended.
_OWN = tuple(
    _c[name]
    for name in (
        *("sequence", "project", "location", "pipeline_id", "request", "job_id", "model_id", "created_us"),
        *("ended_us", "error_message", "reason"),
    )
)
_WITH_JOB = sa.select(
    *_OWN, _STATE.label("state"), _STARTED.label("started_us"), jobs.c.running_us
).select_from(pipelines.outerjoin(jobs, jobs.c.uid == _c.job_uid))
_REQUEST = JsonObject(_c.request)
#: What filters ask for. A pipeline runs from the moment at which its job leaves the queue.
_FIELDS: dict[str, FieldSql] = {
    "display_name": pattern_field(_REQUEST["displayName"].as_string()),
    "state": text_field(
        sa.case({JobState.PREPARING.value: JobState.RUNNING.value}, value=_STATE, else_=_STATE)
    ),
    "create_time": time_field(_c.created_us),
    "training_task_definition": pattern_field(_REQUEST["trainingTaskDefinition"].as_string()),
}


class PipelineStore:
    """Reads and removes ``pipelines``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def get(self, project: str, pipeline_id: str) -> PipelineRecord | None:
        """Return one pipeline; ``None``: there is none."""
        return self._one(sa.and_(_c.project == project, _c.pipeline_id == pipeline_id))

    def of_job(self, job_uid: str) -> PipelineRecord | None:
        """Return the pipeline that a job was made for; ``None``: there is none."""
        return self._one(_c.job_uid == job_uid)

    def list_page(
        self, project: str, location: str, tree: Filter | None, page_size: int, page_token: str
    ) -> tuple[list[PipelineRecord], str]:
        """
        Return a page of a location's pipelines, newest first, and the next page's token.

        The token is empty on the last page.

        :raises InvalidFilter: ``tree`` asks for what there is not.
        :raises InvalidRequest: the token is invalid.
        """
        query = _WITH_JOB.where(_c.project == project, _c.location == location)
        if tree is not None:
            query = query.where(filter_to_sql(tree, _FIELDS, {"labels.": _label}))
        with self._engine.connect() as connection:
            rows, token = read_page(connection, query, _c.sequence, page_size, page_token)
        return [_record(row) for row in rows], token

    def remove(self, project: str, pipeline_id: str) -> bool:
        """
        Remove a pipeline that has ended; its job and its model stay.

        :return: whether it was; ``False``: there is none that has ended.
        """
        same = sa.and_(_c.project == project, _c.pipeline_id == pipeline_id, _c.state.in_(sorted(TERMINAL)))
        with writing(self._engine).begin() as connection:
            return connection.execute(sa.delete(pipelines).where(same)).rowcount == 1

    def _one(self, condition: sa.ColumnElement[bool]) -> PipelineRecord | None:
        with self._engine.connect() as connection:
            row = connection.execute(_WITH_JOB.where(condition)).one_or_none()
        return None if row is None else _record(row)

    def projects(self) -> list[str]:
        """Return the projects that have pipelines."""
        with self._engine.connect() as connection:
            return list(connection.execute(sa.select(_c.project).distinct()).scalars())


def _label(key: str) -> FieldSql:
    return text_field(_REQUEST[("labels", key)].as_string())


def _record(row: Any) -> PipelineRecord:
    newest = row.ended_us or row.running_us or row.started_us or row.created_us
    return PipelineRecord(
        project=row.project,
        location=row.location,
        pipeline_id=row.pipeline_id,
        request=mapping_of(row.request),
        job_id=row.job_id,
        model_id=row.model_id,
        state=state_of(row.state),
        created_at=from_us(row.created_us),
        started_at=moment_of(row.started_us),
        ended_at=moment_of(row.ended_us),
        updated_at=from_us(newest),
        reason=Reason.from_json(row.error_message, mapping_of(row.reason)),
    )
