"""How long a task stays deferred at least."""

from __future__ import annotations

from datetime import datetime

#: Airflow's scheduler (3.3) fails a task that is resumed before the scheduler has processed the end of the
#: worker that deferred it (apache/airflow#72716, open). A worker's supervisor that misses the exit of its
#: process looks again after [workers] min_heartbeat_interval, five seconds by default.
SETTLE_SECONDS = 6.0


def seconds_to_settle(begun_at: datetime, now: datetime) -> float:
    """Return how long a trigger that began at ``begun_at`` has to wait before it fires. Pure."""
    return max(SETTLE_SECONDS - (now - begun_at).total_seconds(), 0.0)
