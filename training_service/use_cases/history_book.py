"""The past of a fleet: what the database computes, with the sizes and prices of machines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from training_api.errors import EngineError
from training_api.fleet.history import (
    MAX_GROUPS,
    MAX_KEYS,
    MAX_MACHINES,
    MAX_MODELS,
    CostGroup,
    CostHistory,
    EndedJob,
    Failures,
    FleetHistory,
    FleetHistoryRequest,
    MachineWaits,
    ModelHistory,
    Percentiles,
    Series,
)
from training_api.job.capacity import Capacity
from training_api.states import TERMINAL, JobState
from training_service.model.clock import Clock, utc_now
from training_service.model.job_machines import cost_per_second, machines_name, promised_room
from training_service.store.database import to_us
from training_service.store.jobs.job_history import JobHistory
from training_service.store.jobs.job_rows import state_of
from training_service.store.jobs.machine_keys import KINDS, machines_of_key
from training_service.store.sql.series_sql import buckets_until
from training_service.use_cases.kept_models import KeptModels


class HistoryBook:
    """
    Computes :class:`FleetHistory`; safe for threads.

    :param capacity: the machines' capacity; raises ``EngineUnavailable`` while it is unknown.
    """

    def __init__(self, database: sa.Engine, capacity: Callable[[], Capacity], clock: Clock = utc_now) -> None:
        self._database = database
        self._capacity = capacity
        self._clock = clock
        self._models = KeptModels()

    def of(self, project: str, request: FleetHistoryRequest) -> FleetHistory:
        """Return the past of a project's jobs."""
        now_us = to_us(self._clock())
        buckets = buckets_until(now_us, request.window_seconds, request.step_seconds)
        try:
            capacity = self._capacity()
        except EngineError:
            capacity = None
        with self._database.connect() as connection:
            past = JobHistory(connection, project, request.dags, buckets.start, now_us)
            found, states = past.machines(MAX_MACHINES), past.states()
            machines = {row.key: _machines(row.key, capacity, request.prices) for row in found}
            use = _levels(past.use(machines, buckets), KINDS, buckets)
            if not (capacity and capacity.total.gpus) and not any(use["gpus"].peak):
                del use["gpus"]
            cost = None
            if request.prices:
                priced = {key: each for key, each in machines.items() if each["rate"] is not None}
                cost_buckets = buckets_until(now_us, request.window_seconds, request.cost_step_seconds)
                rows = past.costs(priced, request.cost_label, cost_buckets, MAX_GROUPS)
                ran = sum(row.started for row in found if row.key in priced)
                cost = CostHistory(
                    **_costs(rows, cost_buckets),
                    unpriced=max(sum(row.started for row in states) - ran, 0),
                    keys=list(past.label_keys(MAX_KEYS)),
                )
            jobs = sum(row.number for row in states)
            return FleetHistory(
                since=buckets.start / 1e6,
                until=now_us / 1e6,
                jobs=jobs,
                times=[start / 1e6 for start in buckets],
                use=use,
                queue=_levels(past.queue(buckets), ["jobs"], buckets)["jobs"],
                waits=_waits(past.waits(machines)),
                outcomes=_outcomes(states),
                failures=[
                    Failures(cause=row.cause, jobs=row.number, latest=_ended(row, good=False))
                    for row in past.failures()
                ],
                cost=cost,
                models=self._models.of(
                    project,
                    request.dags,
                    now_us,
                    lambda since_us: _models(past.models(2 * MAX_MODELS, since_us)),
                ),
                oldest_queued=next((row.oldest_us / 1e6 for row in states if row.state == "QUEUED"), None),
                uncounted=max(jobs - sum(row.number for row in found), 0),
            )


def _machines(key: str, capacity: Capacity | None, prices: Mapping[str, float]) -> dict[str, Any]:
    roles = machines_of_key(key)
    load = promised_room(roles, capacity)
    sizes = (load.cpus, load.memory_bytes, load.gpus, load.replicas)
    rate = cost_per_second(roles, prices)
    return {**dict(zip(KINDS, sizes, strict=True)), "name": machines_name(roles), "rate": rate}


def _levels(rows: Sequence[Any], names: Sequence[str], buckets: range) -> dict[str, Series]:
    """Return the series of each name; a row is a bucket."""
    found = [row._mapping for row in sorted(rows, key=lambda row: row.place)]
    lengths = [min(buckets.step, buckets.stop - start) for start in buckets]
    return {
        name: Series(
            mean=[
                _rounded(row[f"{name}_total"] / length) for row, length in zip(found, lengths, strict=True)
            ],
            peak=[_rounded(row[f"{name}_peak"]) for row in found],
            now=_rounded(found[-1][f"{name}_now"]),
        )
        for name in names
    }


def _rounded(level: float) -> float:
    # What rounding left of amounts that came and went may be below 0.
    return max(round(float(level), 3), 0.0)


def _waits(rows: Sequence[Any]) -> list[MachineWaits]:
    by_machine: dict[str, dict[str, Any]] = {}
    for row in rows:
        found = by_machine.setdefault(row.machine, {"jobs": 0})
        found["jobs"] = max(found["jobs"], row.number)
        found[row.phase] = Percentiles(p50=float(row.p50) / 20e6, p95=float(row.p95) / 20e6)
    waits = [MachineWaits(machine=machine, **found) for machine, found in by_machine.items()]
    return sorted(waits, key=lambda each: (-each.jobs, each.machine))


def _outcomes(states: Sequence[Any]) -> dict[JobState, int]:
    ended: Counter[JobState] = Counter()
    for row in states:
        ended[state_of(row.state)] += row.ended
    return {state: ended[state] for state in JobState if state in TERMINAL}


def _costs(rows: Sequence[Any], buckets: range) -> dict[str, Any]:
    amounts: dict[str | None, list[float]] = {}
    for row in rows:
        amounts.setdefault(row.name, [0.0] * len(buckets))[buckets.index(row.at_us)] = float(row.amount)
    groups = [CostGroup(name=name, amounts=each, total=math.fsum(each)) for name, each in amounts.items()]
    return {
        "times": [start / 1e6 for start in buckets],
        "seconds": buckets.step // 1_000_000,
        "groups": sorted(groups, key=lambda group: (group.name is None, -group.total, group.name or "")),
        "total": math.fsum(group.total for group in groups),
    }


def _models(rows: Sequence[Any]) -> list[ModelHistory]:
    by_model: dict[str, list[EndedJob]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(_ended(row, good=bool(row.good)))
    return [
        # The newest of the two comes first.
        ModelHistory(model=model, latest=ended[0], last_good=next((job for job in ended if job.good), None))
        for model, ended in by_model.items()
    ]


def _ended(row: Any, *, good: bool) -> EndedJob:
    return EndedJob(id=row.job_id, end_time=row.ended_us / 1e6, good=good)
