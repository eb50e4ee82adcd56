"""Path parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

#: A project's id or number, domain-scoped ids (``example.com:project``) included. The real rule is stricter
#: (6 to 30 characters); tutorials use shorter names, and they do no harm here.
ProjectPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}$")]
