"""The metrics that containers of the memory engine report, written as the real package does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from container_engines.base import METRIC_FILE_NAME
from training_api.job.tuning.measurement import Report
from training_api.job.tuning.metric_file import WINDOW_REPORTS

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReport:
    """One report, ``after_seconds`` of virtual time from the container's start."""

    after_seconds: float
    tag: str
    step: int
    value: float


def due_reports(reports: Iterable[ScriptedReport], started_at: datetime, until: datetime) -> list[Report]:
    """Return the reports that are due by ``until``, in order. Pure."""
    due = [(started_at + timedelta(seconds=one.after_seconds), one) for one in reports]
    return [
        Report(
            tag=one.tag,
            step=one.step,
            value=one.value,
            reported_us=(at - _EPOCH) // timedelta(microseconds=1),
        )
        for at, one in sorted(due, key=lambda pair: pair[0])
        if at <= until
    ]


def write_metric_file(folder: str, reports: Sequence[Report]) -> None:
    """Write the last ``reports`` as ``cloudml-hypertune`` does; waits while a reader holds it."""
    lines = [
        json.dumps(
            {
                "checkpoint_path": "",
                "global_step": str(report.step),
                report.tag: str(report.value),
                "timestamp": report.reported_us / 1e6,
                "trial": "1",
            },
            sort_keys=True,
        )
        for report in reports[-WINDOW_REPORTS:]
    ]
    Path(folder, METRIC_FILE_NAME).write_text("".join(f"{line}\n" for line in lines), "utf-8")
