"""One report of a metric: what it may hold, and what tells it from another."""

from __future__ import annotations

import math
from typing import Any

import pytest

from training_api.job.tuning.measurement import MAX_REPORTED_US, MAX_STEP, MAX_TAG_LENGTH, Report


def make_report(**changes: Any) -> Report:
    return Report(**{"tag": "loss", "step": 1, "value": 0.5, "reported_us": 10} | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"tag": "x" * MAX_TAG_LENGTH},
        {"tag": "training/hptuning/metric"},
        {"tag": "Güte ü"},
        {"step": -MAX_STEP},
        {"step": MAX_STEP},
        {"value": math.nan},
        {"value": -math.inf},
        {"reported_us": 0},
        {"reported_us": MAX_REPORTED_US},
    ],
)
def test_the_limits_themselves_may_be_reported(changes: dict[str, Any]) -> None:
    make_report(**changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tag": ""}, "must have 1 to 256 characters, got 0"),
        ({"tag": "x" * (MAX_TAG_LENGTH + 1)}, "must have 1 to 256 characters, got 257"),
        ({"tag": "a\x00b"}, "must be printable"),
        ({"tag": "a\nb"}, "must be printable"),
        ({"tag": "\ud800"}, "must be printable"),
        ({"step": MAX_STEP + 1}, "must be a 64-bit integer"),
        ({"step": -MAX_STEP - 1}, "must be a 64-bit integer"),
        ({"reported_us": -1}, "must lie in the years 1970 to 9999"),
        ({"reported_us": MAX_REPORTED_US + 1}, "must lie in the years 1970 to 9999"),
    ],
)
def test_what_no_column_can_hold_is_no_report(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make_report(**changes)


def test_two_reports_of_nan_are_the_same_report() -> None:
    assert make_report(value=math.nan).identity == make_report(value=math.nan).identity


@pytest.mark.parametrize("changes", [{"tag": "accuracy"}, {"step": 2}, {"value": 0.25}, {"reported_us": 11}])
def test_every_part_tells_reports_apart(changes: dict[str, Any]) -> None:
    assert make_report(**changes).identity != make_report().identity
