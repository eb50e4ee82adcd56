"""When the loop last did its work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from training_service.model.heartbeat import Heartbeat

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_heartbeat_ages_until_the_next() -> None:
    passed = 0.0
    heartbeat = Heartbeat(lambda: START + timedelta(seconds=passed), lambda: passed)

    passed = 40.0
    old = (heartbeat.age_seconds, heartbeat.at)
    heartbeat.beat()

    assert old == (40.0, START)
    assert (heartbeat.age_seconds, heartbeat.at) == (0.0, START + timedelta(seconds=40))
