from __future__ import annotations

from datetime import timedelta

import pytest

from container_training.work.models.age import parse_limits
from training_api.errors import InvalidRetrainingLimit

DAY = timedelta(days=1)


@pytest.mark.parametrize("value", [{"a": 7, "*": 0.5}, '{"a": 7, "*": 0.5}'])
def test_limits_are_days_by_model(value: object) -> None:
    assert parse_limits(value, "limits") == {"a": 7 * DAY, "*": DAY / 2}


@pytest.mark.parametrize("value", [None, "", " ", {}])
def test_no_limits_are_none(value: object) -> None:
    assert parse_limits(value, "limits") == {}


@pytest.mark.parametrize("value", ["no json", "[1]", [1], 7, {"a": 0}, {"a": "7"}, {"a": True}, {"a": 1e12}])
def test_limits_that_cannot_be_read_are_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidRetrainingLimit, match=r"limits.* must be"):
        parse_limits(value, "limits")
