"""Routes of one resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.routing import APIRoute

from training_api.wire import WireModel

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class Routes:
    """
    Routes that are made once, as a part of the app, with what the app asks of each of them.

    FastAPI's ``APIRouter`` makes its routes, and ``include_router`` makes them again, which took 0.1 s of CPU
    at each start of the service. Here they are noted, and :meth:`add_to` makes them.

    The arguments, and those of the decorators, are ``APIRouter``'s.
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        tags: Sequence[str] = (),
        responses: Mapping[int | str, dict[str, Any]] | None = None,
        include_in_schema: bool = True,
        route_class: type[APIRoute] = APIRoute,
    ) -> None:
        self._prefix = prefix
        self._responses = dict(responses or {})
        self._options: dict[str, Any] = {
            "tags": [*tags],
            "include_in_schema": include_in_schema,
            "route_class_override": route_class,
        }
        self._noted: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def get(self, path: str, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Return the decorator of a GET."""
        return self.api_route(path, methods=["GET"], **options)

    def post(self, path: str, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Return the decorator of a POST."""
        return self.api_route(path, methods=["POST"], **options)

    def put(self, path: str, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Return the decorator of a PUT."""
        return self.api_route(path, methods=["PUT"], **options)

    def patch(self, path: str, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Return the decorator of a PATCH."""
        return self.api_route(path, methods=["PATCH"], **options)

    def delete(self, path: str, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Return the decorator of a DELETE."""
        return self.api_route(path, methods=["DELETE"], **options)

    def api_route(self, path: str, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Return the decorator of a route for several methods."""

        def note(endpoint: _Endpoint) -> _Endpoint:
            responses = self._responses | options.get("responses", {})
            self._noted.append((path, endpoint, self._options | options | {"responses": responses}))
            return endpoint

        return note

    def add_to(self, app: FastAPI) -> None:
        """Make the routes, after those that ``app`` has."""
        WireModel.build_all()
        for path, endpoint, options in self._noted:
            app.router.add_api_route(self._prefix + path, endpoint, **options)
