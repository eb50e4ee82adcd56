"""The timeline of a job as the page draws it: phases, pulls, and a lane per replica. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.dialects.ml_v1.trials import trial_number
from training_api.fleet.stragglers import Delay, Stretch, find_stragglers
from training_api.fleet.wire import Span, SpanKind
from training_api.job.restarts import Attempt

#: More lanes than anybody looks at; the first trials are kept.
MAX_LANES = 300


def timeline_view(row: JobRow, spans: Sequence[Span], now: datetime) -> dict[str, Any]:
    """
    Return the timeline; times are seconds since the epoch.

    ``{"start", "end", "isLive", "phases", "pulls", "lanes", "leftOut"}``.

    A run whose end nobody saw, of a job that has ended, ended with it at the latest: its ``isEndSeen`` is
    false.
    """
    end = row.end_time or now
    runs: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        if span.kind is SpanKind.RUN:
            runs.setdefault((span.trial_id, span.name), []).append(span)
    keys = sorted(runs, key=lambda key: (trial_number(key[0]) if key[0] else (0, ""), _lane_order(key[1])))
    delays = _delays(runs, row, now)
    return {
        "start": row.create_time.timestamp(),
        "end": end.timestamp(),
        "isLive": row.end_time is None,
        "phases": list(_phases(row)),
        "pulls": [_pull(span, end) for span in spans if span.kind is SpanKind.PULL],
        "lanes": [
            {
                "replica": name,
                "trial": trial,
                "runs": [_run(span, row, now) for span in runs[trial, name]],
                "late": _late(delays.get((trial, name), Delay())),
            }
            for trial, name in keys[:MAX_LANES]
        ],
        "leftOut": max(len(keys) - MAX_LANES, 0),
    }


def _phases(row: JobRow) -> Iterable[dict[str, Any]]:
    bounds = (
        ("queue", row.create_time, row.prepare_time or row.start_time or row.end_time),
        ("prepare", row.prepare_time, row.start_time or row.end_time),
        ("run", row.start_time, row.end_time),
    )
    for kind, start, end in bounds:
        if start is not None:
            yield {"kind": kind, "start": start.timestamp(), "end": end.timestamp() if end else None}


def _pull(span: Span, end: datetime) -> dict[str, Any]:
    return {
        "image": span.name,
        "trial": span.trial_id,
        "start": span.start_time.timestamp(),
        "end": (span.end_time or end).timestamp(),
    }


def _run(span: Span, row: JobRow, now: datetime) -> dict[str, Any]:
    attempt = Attempt.parse(span.attempt) if span.attempt else Attempt()
    is_live = span.end_time is None and row.end_time is None
    return {
        "start": span.start_time.timestamp(),
        "end": None if is_live else _end(span, row, now).timestamp(),
        "isEndSeen": span.end_time is not None,
        "retry": attempt.retry,
        "restart": attempt.restart,
        "exitCode": span.exit_code,
        "outOfMemory": span.out_of_memory,
    }


def _end(span: Span, row: JobRow, now: datetime) -> datetime:
    return max(span.end_time or row.end_time or now, span.start_time)


def _delays(
    runs: dict[tuple[str, str], list[Span]], row: JobRow, now: datetime
) -> dict[tuple[str, str], Delay]:
    by_trial: dict[str, dict[str, Stretch]] = {}
    for (trial, name), spans in runs.items():
        by_trial.setdefault(trial, {})[name] = Stretch(
            start=min(span.start_time for span in spans).timestamp(),
            end=max(_end(span, row, now) for span in spans).timestamp(),
        )
    return {
        (trial, name): delay
        for trial, stretches in by_trial.items()
        for name, delay in find_stragglers(stretches).items()
    }


def _late(delay: Delay) -> dict[str, float | None] | None:
    return None if delay == Delay() else {"start": delay.start, "end": delay.end}


def _lane_order(name: str) -> tuple[int, str, int]:
    """Master first, then by pool and number: ``worker-replica-10`` after ``worker-replica-2``."""
    pool, _, index = name.rpartition("-")
    return (
        0 if pool in ("master-replica", "chief-replica") else 1,
        pool,
        int(index) if index.isdecimal() else 0,
    )
