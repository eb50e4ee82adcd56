"""The pause before a trigger fires."""

from __future__ import annotations

from datetime import timedelta

import pytest

from container_training.triggers.settling import SETTLE_SECONDS, seconds_to_settle
from tests.support.fakes.fake_service import EPOCH


@pytest.mark.parametrize(
    ("waited", "left"), [(0.0, SETTLE_SECONDS), (1.5, SETTLE_SECONDS - 1.5), (SETTLE_SECONDS, 0), (60, 0)]
)
def test_a_trigger_waits_for_what_is_left_of_the_time(waited: float, left: float) -> None:
    assert seconds_to_settle(EPOCH, EPOCH + timedelta(seconds=waited)) == left
