"""Reasons, and what is stored of them beside the message."""

from __future__ import annotations

import pytest

from training_api.causes import Cause
from training_service.model.reasons import Reason


@pytest.mark.parametrize(
    "reason",
    [
        Reason(cause=Cause.IMAGE, message="It is not there."),
        Reason(cause=Cause.PROGRAM_ERROR, message="It failed.", replica="worker 1", exit_code=3),
        Reason(cause=Cause.METRIC, message="2 trials have failed.", failed_trials=2),
    ],
)
def test_a_reason_is_read_back_as_it_was_stored(reason: Reason) -> None:
    assert Reason.from_json(reason.message, reason.to_json()) == reason


def test_a_message_of_a_service_without_causes_has_an_unknown_one() -> None:
    assert Reason.from_json("It failed.", {}) == Reason(cause=Cause.UNKNOWN, message="It failed.")


def test_without_a_message_there_is_no_reason() -> None:
    assert Reason.from_json("", {}) is None
