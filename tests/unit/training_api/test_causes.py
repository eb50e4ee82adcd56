"""Causes as they are read from the wire."""

from __future__ import annotations

import pytest

from training_api.causes import Cause
from training_api.fleet.wire import JobReason


def test_a_cause_that_a_newer_service_has_is_unknown() -> None:
    assert JobReason.model_validate({"cause": "SOMETHING_NEW"}).cause is Cause.UNKNOWN


def test_what_is_no_text_is_no_cause() -> None:
    with pytest.raises(ValueError, match="3 is not a valid Cause"):
        Cause(3)
