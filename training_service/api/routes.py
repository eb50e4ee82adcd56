"""Routes of one resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI


class Routes(APIRouter):
    """
    Routes that are made once, as a part of the app, with what the app asks of each of them.

    FastAPI makes the routes of a router, and makes them again when an app includes it. Nothing takes longer
    at the start of the service. So these are noted here, and made by :meth:`add_to`.
    """

    def __init__(self, **options: Any) -> None:
        """:param options: those of FastAPI's router."""
        super().__init__(**options)
        self._noted: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Note a route; the decorators of FastAPI's router call this."""
        self._noted.append((path, endpoint, options))

    def add_to(self, app: FastAPI) -> None:
        """Make the routes, after those that ``app`` has."""
        for path, endpoint, options in self._noted:
            app.router.add_api_route(
                self.prefix + path,
                endpoint,
                route_class_override=self.route_class,
                **options
                | {
                    "tags": [*self.tags, *(options["tags"] or [])],
                    "responses": self.responses | (options["responses"] or {}),
                    "include_in_schema": self.include_in_schema and options["include_in_schema"],
                },
            )
