"""Parts of a job's result: its metrics file, and times from the service's log lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from training_api.cloud_logging import LogEntry
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobFailed, ResultsMissing
from training_api.job.results import StateTimes, StudyResult
from training_api.states import JobState

#: A result must stay small enough for a task's output; what is larger belongs into the job folder.
MAX_METRICS_BYTES = 1024 * 1024
#: In the job folder: what is in the job's image.
BILL_OF_MATERIALS_FILE = "sbom.cdx.json"
_MAX_NAMES = 10


def require_succeeded(job: Job, study: StudyResult | None = None) -> None:
    """
    Return if ``job`` has results.

    :param study: of a tuning job whose results are wanted however it ended, if one of its trials ended well.
    :raises JobFailed: it ended otherwise.
    :raises ResultsMissing: it has not ended.
    """
    if job.state is JobState.SUCCEEDED:
        return
    if job.state and job.state.is_terminal:
        if study is not None and study.best is not None:
            return
        raise JobFailed(job.job_id or "", job.state, job.error_message or "")
    raise ResultsMissing(
        f"job {job.job_id!r} is {job.state}; its results can be collected once it has SUCCEEDED, so wait for "
        "its end first"
    )


def parse_metrics(text: bytes, uri: str) -> dict[str, Any]:
    """
    Return the metrics of the file at ``uri``.

    NaN and infinities, which JSON does not have, become ``None``.

    Pure.

    :raises ResultsMissing: not a JSON object.
    """
    try:
        metrics = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ResultsMissing(
            f"{uri} is not JSON that can be read, got {text[:100]!r}: {error}; the trainer must write a JSON "
            "object there"
        ) from error
    if not isinstance(metrics, dict):
        raise ResultsMissing(
            f"{uri} holds a JSON {type(metrics).__name__}; the trainer must write a JSON object, like "
            '{"accuracy": 0.97}'
        )
    return metrics


def no_metrics(job_id: str, uri: str, folder: str, names: Iterable[str]) -> ResultsMissing:
    """Return the error of a job that left no metrics file; it names what is there instead."""
    found = sorted(names)
    shown = ", ".join(found[:_MAX_NAMES]) + (" ..." if len(found) > _MAX_NAMES else "")
    there = f"the files there are: {shown}" if found else "the folder is empty"
    return ResultsMissing(
        f"job {job_id!r} left no {uri.removeprefix(folder)!r} in {folder}; {there}. "
        "The trainer must write it below its --job-dir"
    )


def no_best_trial(job_id: str, study: StudyResult) -> ResultsMissing:
    """Return the error of a tuning job of which no trial reported its metric."""
    return ResultsMissing(
        f"no trial of job {job_id!r} ended with a finite {study.metric_tag!r}: {study.completed} completed, "
        f"{study.failed} failed, "
        f"{study.cancelled} cancelled. The trainer must report it under this name (hyperparameterMetricTag) "
        "with cloudml-hypertune"
    )


def state_times(job: Job, entries: Iterable[LogEntry]) -> StateTimes:
    """
    Return when ``job`` entered each state.

    From the service's lines, else from the job's own times.

    Pure. ``startTime`` is taken as entering RUNNING; PREPARING is then unknown and counts as waiting.

    :raises ResultsMissing: neither says when the job was created or ended.
    """
    seen: dict[str, datetime] = {}
    for entry in entries:
        if entry.trial_id:
            continue  # a trial has states of its own
        payload: Mapping[str, Any] = entry.json_payload or {}
        if (state := payload.get("state")) in JobState.__members__:
            seen.setdefault(str(state), entry.timestamp)
    ended = [seen[state] for state in ("SUCCEEDED", "FAILED", "CANCELLED") if state in seen]
    queued_at = seen.get("QUEUED", job.create_time)
    ended_at = ended[0] if ended else job.end_time
    if queued_at is None or ended_at is None:
        raise ResultsMissing(
            f"job {job.job_id!r} has no createTime or no endTime, so its duration is unknown"
        )
    return StateTimes(
        queued_at=queued_at,
        preparing_at=seen.get("PREPARING"),
        running_at=seen.get("RUNNING", job.start_time),
        ended_at=ended_at,
    )


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None
