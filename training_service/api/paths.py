"""Parameters of paths and queries that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from training_service.model.projects import PROJECT_PATTERN

ProjectPath = Annotated[str, Path(pattern=PROJECT_PATTERN)]
#: Shown on the page only: ``model/paging.py`` has the rule, for lists with a body, too.
PageSize = Annotated[int, Query(alias="pageSize", json_schema_extra={"minimum": 0})]
