"""How answers are written, and the parameters that all routes of this dialect share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from fastapi.responses import JSONResponse

from training_api.dialects.vertex_v1.names import LOCATION_PATTERN
from training_api.errors import InvalidRequest
from training_service.api.vertex_v1.canonical import with_integer_enums

LocationPath = Annotated[str, Path(pattern=LOCATION_PATTERN)]
#: Writes a message, by its name and its canonical JSON.
Answer = Callable[[str, Mapping[str, Any]], JSONResponse]
_FORMATS = {"": False, "json": False, "json;enum-encoding=int": True}


async def _answering(
    alt: Annotated[str, Query(include_in_schema=False)] = "",
    system_alt: Annotated[str, Query(alias="$alt", include_in_schema=False)] = "",
) -> Answer:
    """Return what writes the answer as it was asked for: by the SDK, with integers for enums."""
    asked = system_alt or alt
    if asked not in _FORMATS:
        known = " or ".join(repr(each) for each in _FORMATS if each)
        raise InvalidRequest.of("$alt", f"must be {known}; got {asked[:100]!r}")
    if not _FORMATS[asked]:
        return lambda _, resource: JSONResponse(resource)
    return lambda name, resource: JSONResponse(with_integer_enums(name, resource))


Answering = Annotated[Answer, Depends(_answering)]
