"""What may be asked of a fleet's past."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from training_api.fleet.history import MAX_BUCKETS, FleetHistoryRequest

GOOD = {"windowSeconds": 86_400, "stepSeconds": 600, "costStepSeconds": 3600}


def test_a_window_with_as_many_buckets_as_there_may_be_is_taken() -> None:
    request = FleetHistoryRequest.model_validate(GOOD | {"windowSeconds": 600 * MAX_BUCKETS})

    assert (request.dags, request.cost_label, request.prices) == (None, "airflow-dag", {})


@pytest.mark.parametrize(
    ("sent", "field", "rule"),
    [
        ({"windowSeconds": 59}, "windowSeconds", "greater than or equal to 60"),
        ({"windowSeconds": 400 * 86_400}, "windowSeconds", "less than or equal to"),
        ({"windowSeconds": True}, "windowSeconds", "not"),
        ({"stepSeconds": 0}, "stepSeconds", "greater than or equal to 1"),
        ({"stepSeconds": 100}, "stepSeconds", "at least 173, so that a window of 86400 seconds"),
        ({"costStepSeconds": 1}, "costStepSeconds", "has at most 500 buckets; got 1"),
        ({"dags": ["d"] * 10_001}, "dags", "at most 10000"),
        ({"dags": ["\ud800"]}, "dags", "unicode"),
        ({"costLabel": "Team"}, "costLabel", "pattern"),
        ({"costLabel": ""}, "costLabel", "pattern"),
        ({"prices": {"a": -1}}, "prices", "greater than or equal to 0"),
        ({"prices": {"a": float("nan")}}, "prices", "less than or equal to"),
        ({"prices": {"a": float("inf")}}, "prices", "less than or equal to"),
        ({"prices": {f"m{number}": 1 for number in range(1001)}}, "prices", "at most 1000"),
        ({"filter": "state=FAILED"}, "filter", "not permitted"),
    ],
)
def test_a_bad_request_is_refused_by_its_field(sent: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(ValidationError) as caught:
        FleetHistoryRequest.model_validate(GOOD | sent)

    assert [error["loc"][0] for error in caught.value.errors()] == [field]
    assert rule in str(caught.value)
