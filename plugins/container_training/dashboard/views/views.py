"""Jobs as the pages show them: plain objects that become JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.dialects.ml_v1.resources import ScaleTier, TrainingInput
from training_api.dialects.ml_v1.roles import machines_of
from training_api.dialects.registry import title_of
from training_api.errors import InvalidPrice
from training_api.states import JobState
from training_api.wire import format_timestamp

#: Labels that say who submitted a job; a row shows them as a link.
_OWN_PREFIX = "airflow-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """
    The DAG, and the run and task of it, that submitted a job, as far as they are known.

    :param run_id: empty: the run is not in Airflow's database any more, or more than one may be meant.
    """

    dag_id: str
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1


def job_view(
    row: JobRow, now: datetime, prices: PriceList, *, origin: Origin | None, may_cancel: bool
) -> dict[str, Any]:
    """
    Return one row of the table of jobs.

    Pure. Times are RFC 3339; seconds are until ``now``, and ``phase`` names the one that goes on.

    :param may_cancel: whether the person has the right; a job that has ended, or ends, cannot be cancelled by
        anybody.
    """
    ends = row.state.is_terminal or row.state is JobState.CANCELLING
    return {
        "id": row.job_id,
        "api": title_of(row.dialect),
        "displayName": row.display_name or None,
        "state": row.state,
        "createTime": format_timestamp(row.create_time),
        "endTime": format_timestamp(row.end_time) if row.end_time else None,
        "seconds": phase_seconds(row, now),
        "phase": current_phase(row),
        "position": row.job_position,
        "machines": machines_text(row.training_input),
        "trials": {"ended": row.trials.ended, "total": row.trials.total} if row.trials else None,
        "cost": cost_view(row, prices),
        "error": row.error_message,
        "origin": _origin_view(origin, row.labels),
        "labels": {key: value for key, value in row.labels.items() if not key.startswith(_OWN_PREFIX)},
        "canCancel": may_cancel and not ends,
    }


def current_phase(row: JobRow) -> str | None:
    """
    Return the phase that still grows; ``None`` for a job that has ended. Pure.

    ``queued``, ``preparing`` or ``running``.
    """
    if row.end_time or row.state.is_terminal:
        return None
    if row.start_time:
        return "running"
    return "preparing" if row.prepare_time else "queued"


def phase_seconds(row: JobRow, now: datetime) -> dict[str, float | None]:
    """
    Return how long the job was queued, was prepared and ran.

    ``{"queued": s, "preparing": s, "running": s}``.

    Pure. ``None`` for what it never came to.
    """
    end = row.end_time or now
    bounds = {
        "queued": (row.create_time, row.prepare_time or row.start_time),
        "preparing": (row.prepare_time, row.start_time),
        "running": (row.start_time, None),
    }
    return {
        name: round(max(((until or end) - since).total_seconds(), 0.0), 3) if since else None
        for name, (since, until) in bounds.items()
    }


def cost_view(row: JobRow, prices: PriceList) -> dict[str, Any] | None:
    """
    Return what the job has cost so far, and the cost of each further second.

    ``None`` if a price is missing.

    Pure. Trials run side by side, so their seconds are the service's to count: ``perSecond`` is 0 there.
    """
    try:
        rate = prices.cost_per_second(row.training_input)
    except InvalidPrice:
        return None
    return {
        "amount": rate * row.billed_seconds,
        "perSecond": rate if current_phase(row) == "running" and row.trials is None else 0.0,
        "currency": prices.currency,
    }


def machines_text(training: TrainingInput) -> str:
    """
    Return the machines of one run of the job for people. Pure.

    ``n1-standard-4 + 2 x n1-standard-8 workers``.
    """
    tier = training.scale_tier or ScaleTier.BASIC
    if tier is not ScaleTier.CUSTOM:
        machines = [role.machine for role in machines_of(training) if role.count]
        return f"{tier.value} ({machines[0]})" if len(machines) == 1 else tier.value
    master, *others = machines_of(training)
    parts = [master.machine or "?"]
    for role in others:
        if role.count:
            plural = "s" if role.count > 1 else ""
            parts.append(f"{role.count} x {role.machine or '?'} {role.fields.title}{plural}")
    return " + ".join(parts)


def state_counts(states: Mapping[JobState, int]) -> dict[str, int]:
    """Return how many jobs are in each state, in the order of a job's life. Pure."""
    return {state.value: states.get(state, 0) for state in JobState}


def _origin_view(origin: Origin | None, labels: Mapping[str, str]) -> dict[str, Any] | None:
    if origin is None:
        dag = labels.get("airflow-dag")
        return {"dag": dag, "isKnown": False} if dag else None
    return {
        "dag": origin.dag_id,
        "run": origin.run_id or None,
        "task": origin.task_id or None,
        "mapIndex": origin.map_index if origin.map_index >= 0 else None,
        "isKnown": True,
    }
