"""Time as an argument: the loop asks a clock, tests bring their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)
