"""The OpenAPI page says what the service answers, and nothing that it does not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel

from training_service.api.openapi import ErrorBody, correct_openapi, errors


class OtherBody(BaseModel):
    """An error in another API's form."""

    message: str


@pytest.fixture
def page() -> dict[str, Any]:
    app = FastAPI(responses=errors(400, 404))
    correct_openapi(app, OtherBody)

    @app.get("/{number}", responses=errors(409, body=OtherBody))
    def route(number: int) -> None:
        """Need a number, which is what FastAPI documents its own error for."""

    return app.openapi()


def test_frameworks_own_form_of_a_refusal_is_not_there(page: dict[str, Any]) -> None:
    assert "422" not in page["paths"]["/{number}"]["get"]["responses"]
    assert not {"HTTPValidationError", "ValidationError"} & set(page["components"]["schemas"])


def test_each_error_has_its_meaning_and_its_form(page: dict[str, Any]) -> None:
    responses = page["paths"]["/{number}"]["get"]["responses"]
    forms = {
        code: response["content"]["application/json"]["schema"].get("$ref", "").rpartition("/")[2]
        for code, response in responses.items()
    }

    assert forms == {"200": "", "400": "ErrorBody", "404": "ErrorBody", "409": "OtherBody"}
    assert "`etag`" in responses["409"]["description"]


def test_each_form_that_the_page_of_the_service_names_is_on_it(http: TestClient) -> None:
    page = http.get("/openapi.json")
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', page.text))

    assert named == page.json()["components"]["schemas"].keys()


def test_an_error_without_a_meaning_cannot_be_documented() -> None:
    with pytest.raises(KeyError):
        errors(418)


def test_the_page_is_the_same_each_time() -> None:
    app = FastAPI(responses=errors(400, body=ErrorBody))
    app.get("/{number}")(lambda number: None)
    correct_openapi(app)

    assert app.openapi() == app.openapi()
