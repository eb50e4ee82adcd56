"""Whether the service is well, measured when somebody scrapes."""

from __future__ import annotations

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from training_service.model.heartbeat import Heartbeat
from training_service.telemetry.health_gauges import HEALTH_GAUGES, HealthGauges

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_parts_and_the_loops_last_success_are_measured() -> None:
    registry = CollectorRegistry()
    registry.register(HealthGauges(lambda: {"store": True, "disk": False}, Heartbeat(lambda: START)))

    value = registry.get_sample_value
    assert value("training_ready", {"part": "store"}) == 1
    assert value("training_ready", {"part": "disk"}) == 0
    assert value("training_loop_last_success_timestamp_seconds") == START.timestamp()


def test_every_gauge_is_described_and_no_other_is_measured() -> None:
    gauges = HealthGauges(dict, Heartbeat())

    assert {metric.name for metric in gauges.describe()} == set(HEALTH_GAUGES)
    assert {metric.name for metric in gauges.collect()} == set(HEALTH_GAUGES)
