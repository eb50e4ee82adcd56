"""The service's OpenAPI page: FastAPI's, with the errors that the service really returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field
from pydantic.json_schema import JsonSchemaMode, models_json_schema

#: FastAPI documents its own form of a request that cannot be read; this service answers those with 400.
_NOT_ANSWERED = "422"
_PLACE = "#/components/schemas/{model}"
_NOT_ANSWERED_SCHEMAS = ("HTTPValidationError", "ValidationError")

_MEANING = {
    400: "The request breaks a rule; `details` names the fields.",
    401: "The service wants a bearer token (`--require-auth`), and there is none that it knows.",
    403: "The caller lacks the permission.",
    404: "There is no such thing.",
    409: "The name is taken, or the `etag` is stale.",
    412: "The `etag` is stale.",
    413: "The body is too long.",
    503: "The engine or the database does not answer now.",
}


class RpcStatus(BaseModel):
    """``google.rpc.Status`` in JSON."""

    code: int
    message: str
    status: str
    details: list[dict[str, Any]] = Field(
        default=[], description="`google.rpc.BadRequest` with `fieldViolations`"
    )


class ErrorBody(BaseModel):
    """The body of an error."""

    error: RpcStatus


def errors(*codes: int, body: type[BaseModel] = ErrorBody) -> dict[int | str, dict[str, Any]]:
    """
    Return what FastAPI's ``responses`` wants for errors with these HTTP statuses.

    They name the schema of ``body``, which :func:`correct_openapi` puts on the page. Given the class, FastAPI
    would make a validator of it for each status of each route, at each start.
    """
    schema = {"$ref": _PLACE.format(model=body.__name__)}
    content = {"application/json": {"schema": schema}}
    return {code: {"description": _MEANING[code], "content": content} for code in codes}


#: What any route may answer.
COMMON_ERRORS = errors(400, 401, 403, 404)


def correct_openapi(app: FastAPI, *bodies: type[BaseModel]) -> None:
    """
    Have ``app`` leave out of its page what it never answers, and describe its errors.

    :param bodies: those that routes were given by :func:`errors`, besides :class:`ErrorBody`.
    """
    generate: Callable[[], dict[str, Any]] = app.openapi

    def openapi() -> dict[str, Any]:
        page = generate()
        for operations in page["paths"].values():
            for operation in operations.values():
                operation["responses"].pop(_NOT_ANSWERED, None)
        schemas = page["components"]["schemas"]
        for name in _NOT_ANSWERED_SCHEMAS:
            schemas.pop(name, None)
        described: list[type[BaseModel]] = [ErrorBody, *bodies]
        modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [(body, "serialization") for body in described]
        schemas |= models_json_schema(modes, ref_template=_PLACE)[1]["$defs"]
        return page

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way
