"""How states and times look to a person."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from training_api.states import JobState

STATE_STYLES: Mapping[JobState | None, str] = {
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "bold red",
    JobState.CANCELLED: "yellow",
    JobState.CANCELLING: "yellow",
    JobState.RUNNING: "cyan",
    JobState.PREPARING: "blue",
}


def duration_text(seconds: float) -> str:
    """Return ``0:01:05``; what is negative, as clocks may differ, is nothing."""
    return str(timedelta(seconds=max(round(seconds), 0)))
