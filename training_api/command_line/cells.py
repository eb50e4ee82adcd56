"""How states, times and texts from elsewhere look in a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from rich.text import Text

from training_api.states import JobState

STATE_STYLES: Mapping[JobState | None, str] = {
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "bold red",
    JobState.CANCELLED: "yellow",
    JobState.CANCELLING: "yellow",
    JobState.RUNNING: "cyan",
    JobState.PREPARING: "blue",
}
#: Text from elsewhere must not control the reader's terminal: all control characters but tab and line feed.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def state_text(state: JobState | None) -> Text:
    """Return the state's name in its colour; empty for none."""
    return Text(state.value if state else "", style=STATE_STYLES.get(state, ""))


def moment_text(moment: datetime | None) -> str:
    """Return the time in the reader's own time zone, as gcloud shows it; empty for none."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def duration_text(seconds: float) -> str:
    """Return ``0:01:05``; a negative duration, as clocks may differ, is shown as 0."""
    return str(timedelta(seconds=max(round(seconds), 0)))


def printable(text: str) -> str:
    r"""Return ``text`` with its control characters written as ``\x1b``."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
