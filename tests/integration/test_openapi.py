"""
The service does what its own OpenAPI page says.

schemathesis makes the requests from the page, so that new routes are tested without a change here: good
requests, requests that break the page's rules, and methods that a path lacks. What it does not think of is
put into every field that the page names: texts of no encoding, filters and tokens of any length, numbers of
any size.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from container_engines.memory.engine import MemoryEngine
from tests.integration.live_service import IMAGE, run_service
from tests.support import web
from tests.support.speed import scaled
from training_service.settings import ServiceSettings
from training_service.wiring import build_service

#: Path parameters that name something which exists, so that not every answer is a 404.
EXISTING = {"project": "demo-project", "job_id": "job", "location": "us-central1"}
JOBS = f"/v1/projects/{EXISTING['project']}/jobs"

EXCLUDED: list[CheckFunction] = [
    # The page cannot say all rules: those between fields, the language of filters, which page tokens were
    # given out. A request that breaks one of them fits the page and is refused with 400.
    positive_data_acceptance,
]
#: Asked with another HTTP method, ``NAME:verb`` reads as a name, which is malformed (400) or of nothing
#: (404), not 405.
EXCLUDED_OF_CUSTOM_VERBS = [*EXCLUDED, unsupported_method]


def _log_token(*place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


#: What a field of any name and type is sent as. The filters and tokens are refused elsewhere: unknown fields.
ODD_VALUES: dict[str, Any] = {
    "surrogate": "\ud800",
    "surrogate in a filter": 'insertId="\ud800"',
    "NUL": 'jobId="\x00"',
    "long": "9" * 5000,
    "terms of logs": " OR ".join(["severity=ERROR"] * 1100),
    "terms of jobs": "state=RUNNING" + " OR state:RUNNING" * 1100,
    "digits": "severity>=" + "9" * 5000,
    "pattern": 'textPayload:"' + "€" * 19_000 + '"',
    "key": 'labels."a\\"b"=1',
    "token of jobs": f"{2**70}-{2**70}",
    "token of logs": _log_token(2**70, "a", 1),
    "token of a surrogate": _log_token(1, "\ud800", 1),
    "negative": -1,
    "zero": 0,
    "beyond 64 bits": 2**70,
    "many digits": 10**4000,
    "deep": json.loads("[" * 500 + "]" * 500),
}
#: What a route wants before it looks at the odd field.
USUAL: dict[str, Any] = {
    "resourceNames": [f"projects/{EXISTING['project']}"],
    "trainingInput": {"masterConfig": {"imageUri": IMAGE}},
    "jobId": "another",
}
#: Longer queries do not fit into a line of HTTP.
MAX_QUERY = 60_000

_app = build_service(ServiceSettings(database_url="sqlite://"), MemoryEngine())
page = schemathesis.openapi.from_dict(_app.openapi())


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that has the job of ``EXISTING``."""
    with run_service(tmp_path_factory.mktemp("service")) as service:
        body = {"jobId": EXISTING["job_id"], "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}
        web.post(f"{service.endpoint}{JOBS}", json=body).raise_for_status()
        yield service.endpoint


@page.parametrize()
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
def test_operation_keeps_to_the_page(case: schemathesis.Case, endpoint: str) -> None:
    has_custom_verb = ":" in case.operation.path.rpartition("/")[2]
    excluded = EXCLUDED_OF_CUSTOM_VERBS if has_custom_verb else EXCLUDED
    case.call_and_validate(base_url=endpoint, excluded_checks=excluded, timeout=scaled(60))
    if case.path_parameters and case.meta and case.meta.generation.mode is GenerationMode.POSITIVE:
        case.path_parameters = {
            name: EXISTING.get(name, value) for name, value in case.path_parameters.items()
        }
        case.call_and_validate(base_url=endpoint, excluded_checks=excluded, timeout=scaled(60))


def _operations() -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Yield each operation of the page: method, path, the fields of its query and body."""
    schemas = _app.openapi()["components"]["schemas"]
    for path, operations in _app.openapi()["paths"].items():
        for method, operation in operations.items():
            query = [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
            body = json.dumps(operation.get("requestBody", {}))
            fields = [
                field
                for name, schema in schemas.items()
                if f'/schemas/{name}"' in body
                for field in schema.get("properties", {})
            ]
            yield method.upper(), path, query, fields


@pytest.mark.parametrize(
    ("method", "path", "query", "fields"),
    [pytest.param(*each, id=f"{each[0]} {each[1]}") for each in _operations() if each[2] or each[3]],
)
def test_no_odd_value_of_any_field_is_an_internal_error(
    endpoint: str, method: str, path: str, query: list[str], fields: list[str]
) -> None:
    url = endpoint + path.format_map(EXISTING | {"bucket": "bucket", "repository": "images"})
    usual = {field: USUAL[field] for field in fields if field in USUAL}
    broken = []
    with web.client() as http:
        for kind, value in ODD_VALUES.items():
            requests: list[dict[str, Any]] = [
                {"content": json.dumps(usual | {field: value}).encode()} for field in fields
            ]
            text = str(value)
            if text.isprintable() and len(quote(text)) < MAX_QUERY:
                requests += [{"params": {name: text}} for name in query]
            for request in requests:
                answer = http.request(method, url, headers={"content-type": "application/json"}, **request)
                if answer.status_code >= 500:
                    broken.append((kind, str(request)[:200], answer.text))

    assert broken == []


#: Google's form, that of Cloud Storage, of registries, and of OAuth 2.
BODIES_OF_ERRORS = ("ErrorBody", "StorageErrorBody", "RegistryErrorBody", "TokenError")


def test_page_is_served_with_its_title_and_the_errors_form(endpoint: str) -> None:
    served = web.get(f"{endpoint}/openapi.json").json()

    assert served["info"]["title"] == "Training service"
    for path, operations in served["paths"].items():
        for method, operation in operations.items():
            assert operation["tags"], (method, path)
            assert "422" not in operation["responses"]
            for code in ("400", "401", "403", "404"):
                found = _error_schema(operation, code)
                assert found in BODIES_OF_ERRORS, (method, path, code)


def _error_schema(operation: dict[str, Any], code: str) -> Any:
    return operation["responses"][code]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
