"""Whether requests and answers are those of Google's discovery documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx

from tests.support.discovery import document

#: The documents of the APIs that a backend for Google's cloud asks.
APIS = ("aiplatform.v1", "artifactregistry.v1", "cloudresourcemanager.v1", "logging.v2")
#: Format of a text -> what it looks like. Source: developers.google.com/discovery/v1/type-format.
_FORMATS = {
    "int64": re.compile(r"-?\d+"),
    "google-datetime": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
    "google-duration": re.compile(r"-?\d+(\.\d+)?s"),
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@dataclass(frozen=True)
class Method:
    """
    A method of an API.

    :param spec: its entry in the API's discovery document.
    """

    api: str
    spec: Mapping[str, Any]

    def faults_of_request(self, query: Mapping[str, str], body: Any) -> list[str]:
        """Return what of a request the document does not have, has otherwise, or misses."""
        known = {**_loaded(self.api)["parameters"], **self.spec["parameters"]}
        faults = [f"there is no query parameter {name}" for name in query if name not in known]
        faults += [
            f"query parameter {name} must be an integer, got {value!r}"
            for name, value in query.items()
            if known.get(name, {}).get("type") == "integer" and not value.isdecimal()
        ]
        if "request" not in self.spec:
            return [*faults, *(["there is a body"] if body is not None else [])]
        return [*faults, *_faults(self.api, self.spec["request"], body, "body", is_sent=True)]

    def faults_of_answer(self, body: Any) -> list[str]:
        """Return what of a good answer the document does not have, or has otherwise."""
        return list(_faults(self.api, self.spec["response"], body, "answer", is_sent=False))


def method_of(verb: str, url: str) -> Method:
    """
    Return the method that a request to Google's hosts asks for.

    :raises AssertionError: there is none.
    """
    asked = httpx.URL(url)
    for api in APIS:
        found = _loaded(api)
        roots = [found["rootUrl"], *(each["endpointUrl"] for each in found.get("endpoints", ()))]
        if not any(url.startswith(root) for root in roots):
            continue
        for spec in _methods(found):
            if spec["httpMethod"] == verb and _pattern(spec["flatPath"]).fullmatch(asked.path):
                return Method(api, spec)
    raise AssertionError(f"no document of {', '.join(APIS)} has {verb} {url}")


@cache
def _loaded(api: str) -> dict[str, Any]:
    return document(api)


def _methods(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from part.get("methods", {}).values()
    for below in part.get("resources", {}).values():
        yield from _methods(below)


def _pattern(flat_path: str) -> re.Pattern[str]:
    return re.compile("/" + re.sub(r"\\\{\w+\\\}", "[^/:]+", re.escape(flat_path)))


def _faults(api: str, schema: Mapping[str, Any], value: Any, path: str, *, is_sent: bool) -> Iterator[str]:
    if "$ref" in schema:
        schema = _loaded(api)["schemas"][schema["$ref"]]
    kind = schema["type"]
    if kind == "any":
        return
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{path} must be of type {kind}, got {value!r}"
    elif kind == "array":
        for place, each in enumerate(value):
            yield from _faults(api, schema["items"], each, f"{path}[{place}]", is_sent=is_sent)
    elif kind == "object":
        yield from _faults_of_fields(api, schema, value, path, is_sent=is_sent)
    elif kind == "string":
        form = _FORMATS.get(schema.get("format", ""))
        if form and not form.fullmatch(value):
            yield f"{path} must be of the format {schema['format']}, got {value!r}"
        if "enum" in schema and value not in schema["enum"]:
            yield f"{path} must be one of {', '.join(schema['enum'])}, got {value!r}"


def _faults_of_fields(
    api: str, schema: Mapping[str, Any], value: Mapping[str, Any], path: str, *, is_sent: bool
) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, each in value.items():
        if name not in known and others is None:
            yield f"{path} has no field {name}"
            continue
        if is_sent and known.get(name, {}).get("readOnly"):
            yield f"{path}.{name} is the service's to set"
        yield from _faults(api, known.get(name, others), each, f"{path}.{name}", is_sent=is_sent)
    for name, field in known.items():
        if is_sent and field.get("description", "").startswith("Required.") and name not in value:
            yield f"{path}.{name} is required"
