"""The models that pipelines have left and clients have uploaded, in the database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from training_api.filtering import Filter
from training_service.model.pipelines import ModelRecord
from training_service.store.database import from_us, to_us, writing
from training_service.store.jobs.stored_spec import mapping_of
from training_service.store.pipelines.pages import read_page
from training_service.store.sql.filter_sql import FieldSql, filter_to_sql, text_field
from training_service.store.sql.json_sql import JsonObject
from training_service.store.tables import models

_c = models.c
_MODEL = JsonObject(_c.model)
#: What filters ask for.
_FIELDS: dict[str, FieldSql] = {
    "model": text_field(_c.model_id),
    "display_name": text_field(_MODEL["displayName"].as_string()),
}


class ModelStore:
    """Adds, reads and removes ``models``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def add(self, record: ModelRecord) -> bool:
        """Store a new model; return ``False`` if the project has one of its id, and write nothing."""
        names = ("project", "location", "pipeline_id", "model_id")
        values = {name: getattr(record, name) for name in names}
        new = sa.insert(models).values(
            **values, model=dict(record.model), created_us=to_us(record.created_at)
        )
        try:
            with writing(self._engine).begin() as connection:
                connection.execute(new)
        except IntegrityError:
            return False
        return True

    def get(self, project: str, model_id: str) -> ModelRecord | None:
        """Return one model; ``None``: there is none."""
        query = sa.select(models).where(_c.project == project, _c.model_id == model_id)
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _record(row)

    def list_page(
        self, project: str, location: str, tree: Filter | None, page_size: int, page_token: str
    ) -> tuple[list[ModelRecord], str]:
        """
        Return a page of a location's models, newest first, and the next page's token.

        The token is empty on the last page.

        :raises InvalidFilter: ``tree`` asks for what there is not.
        :raises InvalidRequest: the token is invalid.
        """
        query = sa.select(models).where(_c.project == project, _c.location == location)
        if tree is not None:
            query = query.where(filter_to_sql(tree, _FIELDS, {"labels.": _label}))
        with self._engine.connect() as connection:
            rows, token = read_page(connection, query, _c.sequence, page_size, page_token)
        return [_record(row) for row in rows], token

    def remove(self, project: str, model_id: str) -> bool:
        """Remove a model; what lies in Cloud Storage stays. Return whether there was one."""
        same = sa.and_(_c.project == project, _c.model_id == model_id)
        with writing(self._engine).begin() as connection:
            return connection.execute(sa.delete(models).where(same)).rowcount == 1

    def count_uploaded(self, project: str) -> int:
        """Return how many models of a project clients have uploaded."""
        query = sa.select(sa.func.count()).where(_c.project == project, _c.pipeline_id == "")
        with self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def projects(self) -> list[str]:
        """Return the projects that have models."""
        with self._engine.connect() as connection:
            return list(connection.execute(sa.select(_c.project).distinct()).scalars())


def _label(key: str) -> FieldSql:
    return text_field(_MODEL[("labels", key)].as_string())


def _record(row: Any) -> ModelRecord:
    return ModelRecord(
        project=row.project,
        location=row.location,
        model_id=row.model_id,
        pipeline_id=row.pipeline_id,
        model=mapping_of(row.model),
        created_at=from_us(row.created_us),
    )
