"""What the fleet page shows of the past: series and tables, reckoned from jobs. Pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from container_training.dashboard.service_side.fleet_jobs import FleetJob, Shape
from training_api.causes import Cause
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.promised_room import machine_type, promised_room
from training_api.errors import InvalidPrice
from training_api.fleet.explanations import title_of
from training_api.fleet.time_buckets import Buckets, Interval, levels, means
from training_api.job.capacity import Capacity, Load
from training_api.states import JobState

_HOUR = 3600.0
_DAY = 24 * _HOUR
#: What is shown of costs by name; the rest is one sum.
MAX_GROUPS = 7
#: How many label keys are offered.
MAX_KEYS = 30
_OWN_PREFIX = "airflow-"
#: By which costs are told apart: ``dag``, or a label's key after this.
BY_DAG = "dag"
BY_LABEL = "label:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of time until now: how long, and how finely levels and costs are shown."""

    seconds: float
    step_seconds: float
    cost_seconds: float


WINDOWS: Mapping[str, Window] = {
    "24h": Window(seconds=_DAY, step_seconds=600.0, cost_seconds=_HOUR),
    "7d": Window(seconds=7 * _DAY, step_seconds=_HOUR, cost_seconds=_DAY / 4),
    "30d": Window(seconds=30 * _DAY, step_seconds=4 * _HOUR, cost_seconds=_DAY),
}


def fleet_report(
    jobs: Sequence[FleetJob],
    window: Window,
    now: float,
    *,
    capacity: Capacity | None,
    prices: PriceList,
    by: str,
    dag_name: Callable[[str], str],
) -> dict[str, Any]:
    """
    Return the page's past as JSON.

    Times are seconds since the epoch, series have one value a bucket.

    :param jobs: those that the person may see.
    :param capacity: of now: what jobs held is reckoned by it.
    :param by: ``dag`` or ``label:KEY``.
    :param dag_name: label of a DAG -> what it is called.
    """
    buckets = Buckets.until(now, window.seconds, window.step_seconds)
    recent = [job for job in jobs if job.ended is None or job.ended > buckets.start]
    return {
        "from": buckets.start,
        "until": now,
        "jobs": len(recent),
        "times": buckets.times,
        "use": _use(recent, buckets, capacity),
        "queue": _series([(*_queue_span(job, now), 1.0) for job in recent], buckets),
        "waits": waits_by_machine(recent, buckets.start),
        "outcomes": _outcomes(recent, buckets.start),
        "failures": _failures(recent, buckets.start),
        "cost": cost_report(
            recent, Buckets.until(now, window.seconds, window.cost_seconds), prices, by, dag_name
        ),
    }


def waits_by_machine(jobs: Iterable[FleetJob], since: float) -> list[dict[str, Any]]:
    """
    Return how long jobs were queued and prepared, by the master's machine type.

    The most used type comes first.

    A wait counts if it ended after ``since``; one that goes on, or that a cancel ended, does not.
    """
    queued: defaultdict[str, list[float]] = defaultdict(list)
    prepared: defaultdict[str, list[float]] = defaultdict(list)
    names: dict[Shape, str] = {}
    for job in jobs:
        name = names.get(job.shape) or names.setdefault(job.shape, machine_type(job.shape.training))
        left_queue = job.prepared or job.started
        if left_queue is not None and left_queue > since:
            queued[name].append(left_queue - job.created)
        if job.prepared is not None and job.started is not None and job.started > since:
            prepared[name].append(job.started - job.prepared)
    return [
        {
            "machine": name,
            "jobs": max(len(queued[name]), len(prepared[name])),
            "queue": _p50_p95(queued[name]),
            "prepare": _p50_p95(prepared[name]),
        }
        for name in sorted(
            {*queued, *prepared}, key=lambda name: (-max(len(queued[name]), len(prepared[name])), name)
        )
    ]


def cost_report(
    jobs: Sequence[FleetJob],
    buckets: Buckets,
    prices: PriceList,
    by: str,
    dag_name: Callable[[str], str],
) -> dict[str, Any] | None:
    """
    Return the cost of jobs by bucket and group.

    Each second counts at the machines' price; ``None`` without prices.

    The dearest ``MAX_GROUPS`` groups have their names, the others are one, named ``None``; so is what has no
    such label, as "". ``unpriced`` counts the jobs that ran on machines without a price.
    """
    if not prices.per_second:
        return None
    rates: dict[Shape, float | None] = {}
    spans: defaultdict[str, list[Interval]] = defaultdict(list)
    unpriced = 0
    for job in jobs:
        if job.started is None:
            continue
        if job.shape not in rates:
            rates[job.shape] = _rate(job.shape, prices)
        rate = rates[job.shape]
        if rate is None:
            unpriced += 1
        else:
            group = job.dag if by == BY_DAG else job.labels.get(by.removeprefix(BY_LABEL), "")
            spans[group].append((job.started, job.ended or buckets.end, rate * job.runs))
    amounts = {name: list(levels(found, buckets).integral) for name, found in spans.items()}
    dearest = sorted(amounts, key=lambda name: (-sum(amounts[name]), name))
    shown = [name for name in dearest if sum(amounts[name]) > 0][:MAX_GROUPS]
    groups = [
        _cost_group(dag_name(name) if name and by == BY_DAG else name, [amounts[name]]) for name in shown
    ]
    rest = [amounts[name] for name in dearest[len(shown) :] if sum(amounts[name]) > 0]
    if rest:
        groups.append(_cost_group(None, rest))
    return {
        "times": buckets.times,
        "seconds": buckets.seconds,
        "groups": groups,
        "total": sum(group["total"] for group in groups),
        "currency": prices.currency,
        "unpriced": unpriced,
        "by": by,
        "keys": label_keys(jobs),
    }


def label_keys(jobs: Iterable[FleetJob]) -> list[str]:
    """Return the keys of labels that people gave, the most used first, at most ``MAX_KEYS``."""
    counts = Counter(key for job in jobs for key in job.labels if not key.startswith(_OWN_PREFIX))
    return sorted(counts, key=lambda key: (-counts[key], key))[:MAX_KEYS]


def _cost_group(name: str | None, parts: Sequence[Sequence[float]]) -> dict[str, Any]:
    amounts = [sum(values) for values in zip(*parts, strict=True)]
    return {"name": name, "amounts": amounts, "total": sum(amounts)}


def _rate(shape: Shape, prices: PriceList) -> float | None:
    try:
        return prices.cost_per_second(shape.training)
    except InvalidPrice:
        return None


def _use(jobs: Sequence[FleetJob], buckets: Buckets, capacity: Capacity | None) -> dict[str, Any]:
    """
    Return each kind of capacity that jobs held from PREPARING until their end, and hold now.

    GPUs only if there are any.
    """
    loads: dict[Shape, Load] = {}
    held: list[tuple[float, float, float, Load]] = []
    for job in jobs:
        # A tuning job itself holds nothing: its trials do, from when it runs.
        since = job.started if job.is_study else job.prepared or job.started
        if since is None:
            continue
        load = loads.get(job.shape)
        if load is None:
            load = loads[job.shape] = promised_room(job.shape.training, capacity)
        held.append((since, job.ended or buckets.end, job.runs, load))
    kinds: dict[str, Callable[[Load], float]] = {
        "cpus": lambda load: load.cpus,
        "memoryBytes": lambda load: load.memory_bytes,
        "gpus": lambda load: load.gpus,
        "replicas": lambda load: load.replicas,
    }
    if not (capacity and capacity.total.gpus) and not any(load.gpus for load in loads.values()):
        del kinds["gpus"]
    return {
        name: {
            **_series([(since, until, runs * of(load)) for since, until, runs, load in held], buckets),
            "now": round(
                sum(runs * of(load) for since, until, runs, load in held if since < buckets.end <= until), 3
            ),
        }
        for name, of in kinds.items()
    }


def _series(intervals: Iterable[Interval], buckets: Buckets) -> dict[str, list[float]]:
    found = levels(intervals, buckets)
    return {
        "mean": [round(value, 3) for value in means(found, buckets)],
        "peak": [round(value, 3) for value in found.peak],
    }


def _queue_span(job: FleetJob, now: float) -> tuple[float, float]:
    left = next((time for time in (job.prepared, job.started, job.ended) if time is not None), now)
    return job.created, left


def _outcomes(jobs: Iterable[FleetJob], since: float) -> dict[str, int]:
    counts = Counter(job.state for job in jobs if job.ended is not None and job.ended > since)
    return {state.value: counts[state] for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)}


def _failures(jobs: Iterable[FleetJob], since: float) -> list[dict[str, Any]]:
    """Return the causes of failures, the most common first, each with its last job."""
    by_cause: defaultdict[Cause, list[FleetJob]] = defaultdict(list)
    for job in jobs:
        if job.state is JobState.FAILED and job.ended is not None and job.ended > since:
            by_cause[job.cause or Cause.UNKNOWN].append(job)
    return [
        {
            "cause": cause.value,
            "title": title_of(cause),
            "jobs": len(found),
            "latest": {
                "id": (last := max(found, key=lambda job: job.ended or 0.0)).job_id,
                "endTime": last.ended,
            },
        }
        for cause, found in sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0].value))
    ]


def _p50_p95(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return the median and the 95th percentile, interpolated; ``None`` without values."""
    if not seconds:
        return None
    known = [max(value, 0.0) for value in seconds]
    if len(known) == 1:
        return {"p50": known[0], "p95": known[0]}
    cuts = statistics.quantiles(known, n=20, method="inclusive")
    return {"p50": cuts[9], "p95": cuts[18]}
