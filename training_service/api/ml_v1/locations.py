"""``projects.locations`` of the v1 API."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import JSONResponse

from training_api.dialects.ml_v1.locations import REGIONS, ListLocationsResponse, Location, location_of
from training_api.errors import LocationNotFound
from training_service.api.paths import PageSize, ProjectPath
from training_service.api.routes import Routes
from training_service.model import paging

#: discovery: ListLocations page_size, "The default value is 20, and the maximum page size is 100".
DEFAULT_PAGE_SIZE = 20
MAX_PAGE_SIZE = 100


def locations_router() -> Routes:
    """Return the routes over the regions, which are the same in every project."""
    router = Routes(prefix="/v1/projects/{project}/locations", tags=["projects.locations"])

    @router.get("", response_model=ListLocationsResponse)
    def list_locations(
        project: ProjectPath,
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
    ) -> JSONResponse:
        """List the regions by name."""
        start = _start(page_token)
        end = start + paging.page_size(page_size, default=DEFAULT_PAGE_SIZE, maximum=MAX_PAGE_SIZE)
        answer = ListLocationsResponse(
            locations=[location_of(project, region) for region in REGIONS[start:end]],
            next_page_token=REGIONS[end].name if end < len(REGIONS) else None,
        )
        return JSONResponse(answer.to_wire())

    @router.get("/{location}", response_model=Location)
    def get_location(project: ProjectPath, location: str) -> JSONResponse:
        """Describe a region."""
        for region in REGIONS:
            if region.name == location:
                return JSONResponse(location_of(project, region).to_wire())
        known = ", ".join(region.name for region in REGIONS)
        raise LocationNotFound(f"location {location[:100]!r} not found; there are {known}")

    return router


def _start(page_token: str) -> int:
    """Return the place of the page that ``page_token``, its first region, asks for."""
    names = [region.name for region in REGIONS]
    if not page_token:
        return 0
    if page_token not in names:
        raise paging.foreign_token(page_token)
    return names.index(page_token)
