"""The table of methods, beside Google's own."""

from __future__ import annotations

import importlib
import re

import pytest

from training_service.api.vertex_v1.messages import descriptor_of
from training_service.grpc_api.methods import SERVICES, Method, method_of, path_of_unserved, refusal_of

ROWS = [(service, name, method) for service, methods in SERVICES.items() for name, method in methods.items()]


@pytest.mark.parametrize(("service", "name", "method"), ROWS, ids=[f"{row[0]}/{row[1]}" for row in ROWS])
def test_a_row_has_messages_that_there_are_and_a_field_for_its_path(
    service: str, name: str, method: Method
) -> None:
    fields = {field.name for field in descriptor_of(method.request).fields}

    assert descriptor_of(method.response)
    assert re.findall(r"\{(\w+)=", method.path) in (["parent"], ["name"])
    assert {*re.findall(r"\{(\w+)=", method.path), *({method.body} - {"", "*"})} <= fields
    assert method_of(f"/{service}/{name}") is method


@pytest.mark.parametrize("kind", ["Job", "Model", "Pipeline"])
def test_rows_are_those_of_googles_own_client_over_rest(kind: str) -> None:
    transports = f"google.cloud.aiplatform_v1.services.{kind.lower()}_service.transports"
    rest_base = importlib.import_module(f"{transports}.rest_base")
    base = getattr(rest_base, f"_Base{kind}ServiceRestTransport")
    for name, method in SERVICES[f"google.cloud.aiplatform.v1.{kind}Service"].items():
        (theirs, *_) = getattr(base, f"_Base{name}")._get_http_options()
        assert (theirs["method"].upper(), theirs["uri"]) == (method.verb, method.path), name
        assert theirs.get("body", "") == method.body, name


@pytest.mark.parametrize("call", ["", "/", "/a", "/google.cloud.aiplatform.v1.JobService/", "/a/b/c"])
def test_what_is_not_in_the_table_is_no_method(call: str) -> None:
    assert method_of(call) is None


def test_a_refusal_names_the_resource_and_the_way_out_or_the_method() -> None:
    assert "and not endpoints; serve the" in refusal_of(
        "/google.cloud.aiplatform.v1.EndpointService/ListEndpoints"
    )
    assert "and not datasets; have" in refusal_of("/google.cloud.aiplatform.v1.DatasetService/ListDatasets")
    assert "and not 'a.B/CreateThing'; docs/vertex.md" in refusal_of("/a.B/CreateThing")
    assert path_of_unserved("/a.B/CreateThing") == "/vertex/grpc/a.B/CreateThing"
