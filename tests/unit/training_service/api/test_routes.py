"""Routes that are made as a part of the app."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from training_service.api.routes import Routes


def refuse(request: Request) -> None:
    if request.headers.get("authorization") is None:
        raise HTTPException(401)


class Shouting(APIRoute):
    """Answers in capitals."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def shout(request: Request) -> Response:
            answer = await handle(request)
            return PlainTextResponse(bytes(answer.body).upper())

        return shout


def app_of(**options: Any) -> FastAPI:
    """Return an app that wants a header, with a route of a resource."""
    routes = Routes(prefix="/things", **options)

    @routes.get("/{name}", responses={404: {"description": "no such thing"}})
    def get_thing(name: str) -> PlainTextResponse:
        return PlainTextResponse(name)

    app = FastAPI(dependencies=[Depends(refuse)], responses={401: {"description": "who are you?"}})
    routes.add_to(app)
    return app


def test_a_route_asks_what_the_app_asks_of_all() -> None:
    client = TestClient(app_of())

    assert client.get("/things/a").status_code == 401
    assert client.get("/things/a", headers={"Authorization": "me"}).text == "a"


def test_a_route_is_of_the_class_of_its_resource() -> None:
    client = TestClient(app_of(route_class=Shouting))

    assert client.get("/things/a", headers={"Authorization": "me"}).text == "A"


def test_the_page_has_the_errors_of_the_app_of_the_resource_and_of_the_route() -> None:
    page = app_of(tags=["things"], responses={403: {"description": "not yours"}}).openapi()

    operation = page["paths"]["/things/{name}"]["get"]
    assert operation["tags"] == ["things"]
    assert {"401", "403", "404"} <= operation["responses"].keys()


def test_a_resource_may_be_left_out_of_the_page() -> None:
    assert app_of(include_in_schema=False).openapi()["paths"] == {}
