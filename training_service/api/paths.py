"""Parameters of paths and queries that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

#: A project's id or number, domain-scoped ids (``example.com:project``) included. The real rule is stricter
#: (6 to 30 characters); tutorials use shorter names, and they do no harm here.
PROJECT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}$"
ProjectPath = Annotated[str, Path(pattern=PROJECT_PATTERN)]
#: Shown on the page only: ``model/paging.py`` has the rule, for lists with a body, too.
PageSize = Annotated[int, Query(alias="pageSize", json_schema_extra={"minimum": 0})]
