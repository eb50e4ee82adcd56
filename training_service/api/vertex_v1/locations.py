"""``projects.locations`` of Vertex AI: ``google.cloud.location``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import JSONResponse

from training_api.dialects.vertex_v1.locations import LOCATIONS, location_of
from training_service.api.paths import PageSize, ProjectPath
from training_service.api.routes import Routes
from training_service.api.vertex_v1.answers import Answering, LocationPath
from training_service.api.vertex_v1.paths import PROJECT
from training_service.model import paging

_DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE = 100, 1000


def vertex_locations_router() -> Routes:
    """Return the routes over the locations, which are the same in every project."""
    router = Routes(prefix=f"{PROJECT}/locations", tags=["Vertex AI: locations"])

    @router.get("")
    def list_locations(
        project: ProjectPath,
        answer: Answering,
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
    ) -> JSONResponse:
        """List the locations by name."""
        size = paging.page_size(page_size, default=_DEFAULT_PAGE_SIZE, maximum=_MAX_PAGE_SIZE)
        if page_token and page_token not in LOCATIONS:
            raise paging.foreign_token(page_token)
        start = LOCATIONS.index(page_token) if page_token else 0
        found = [location_of(project, each) for each in LOCATIONS[start : start + size]]
        rest = {"nextPageToken": LOCATIONS[start + size]} if start + size < len(LOCATIONS) else {}
        return answer("google.cloud.location.ListLocationsResponse", {"locations": found, **rest})

    @router.get("/{location}")
    def get_location(project: ProjectPath, location: LocationPath, answer: Answering) -> JSONResponse:
        """Describe a location; any that is named like one is served."""
        return answer("google.cloud.location.Location", location_of(project, location))

    return router
