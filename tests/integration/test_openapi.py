"""
The service does what its own OpenAPI page says.

schemathesis makes the requests from the page, so that new routes are tested without a change here: good
requests, requests that break the page's rules, and methods that a path lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from container_engines.memory.engine import MemoryEngine
from tests.integration.live_service import IMAGE, run_service
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

_app = build_service(ServiceSettings(database_url="sqlite://"), MemoryEngine())
page = schemathesis.openapi.from_dict(_app.openapi())


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that has the job of ``EXISTING``."""
    with run_service(tmp_path_factory.mktemp("service")) as service:
        body = {"jobId": EXISTING["job_id"], "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}
        httpx.post(f"{service.endpoint}{JOBS}", json=body, trust_env=False).raise_for_status()
        yield service.endpoint


@page.parametrize()
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
def test_operation_keeps_to_the_page(case: schemathesis.Case, endpoint: str) -> None:
    has_custom_verb = ":" in case.operation.path.rpartition("/")[2]
    excluded = EXCLUDED_OF_CUSTOM_VERBS if has_custom_verb else EXCLUDED
    case.call_and_validate(base_url=endpoint, excluded_checks=excluded)
    if case.path_parameters and case.meta and case.meta.generation.mode is GenerationMode.POSITIVE:
        case.path_parameters = {
            name: EXISTING.get(name, value) for name, value in case.path_parameters.items()
        }
        case.call_and_validate(base_url=endpoint, excluded_checks=excluded)


def test_page_is_served_with_its_title_and_the_errors_form(endpoint: str) -> None:
    served = httpx.get(f"{endpoint}/openapi.json", trust_env=False).json()

    assert served["info"]["title"] == "Training service"
    for path, operations in served["paths"].items():
        for method, operation in operations.items():
            assert operation["tags"], (method, path)
            assert "422" not in operation["responses"]
            for code in ("400", "401", "403", "404"):
                found = _error_schema(operation, code)
                assert found in ("ErrorBody", "StorageErrorBody", "RegistryErrorBody"), (method, path, code)


def _error_schema(operation: dict[str, Any], code: str) -> Any:
    return operation["responses"][code]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
