"""The past of a fleet: what the database computes, with the sizes and prices of machines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training_api.causes import Cause
from training_api.errors import EngineError, InvalidPrice
from training_api.fleet.history import (
    MAX_GROUPS,
    MAX_KEYS,
    MAX_MACHINES,
    MAX_MODELS,
    CauseOfFailures,
    CostGroup,
    CostHistory,
    EndedJob,
    FleetHistory,
    FleetHistoryRequest,
    MachineWaits,
    ModelHistory,
    Percentiles,
    Series,
)
from training_api.fleet.promised_room import machine_type, promised_room
from training_api.job.capacity import Capacity
from training_api.job.cost import PriceList
from training_api.states import TERMINAL, JobState
from training_service.model.clock import Clock, utc_now
from training_service.model.time_buckets import Buckets
from training_service.store.database import to_us
from training_service.store.jobs.job_history import JobHistory, Past
from training_service.store.jobs.job_rows import state_of
from training_service.store.jobs.machine_keys import KINDS, Machines, machines_of_key

_DIGITS = 3


class HistoryBook:
    """
    Computes :class:`FleetHistory`; safe for threads.

    :param capacity: the machines' capacity; raises ``EngineUnavailable`` while it is unknown.
    """

    def __init__(self, history: JobHistory, capacity: Callable[[], Capacity], clock: Clock = utc_now) -> None:
        self._history = history
        self._capacity = capacity
        self._clock = clock

    def of(self, project: str, request: FleetHistoryRequest) -> FleetHistory:
        """Return the past of a project's jobs."""
        now_us = to_us(self._clock())
        buckets = Buckets.until(now_us, request.window_seconds, request.step_seconds)
        try:
            capacity = self._capacity()
        except EngineError:
            capacity = None
        with self._history.of(project, request.dags, buckets.start_us, now_us) as past:
            found = past.machines(MAX_MACHINES)
            prices = PriceList(source="prices", per_second=request.prices)
            machines = {row.key: _machines(row.key, capacity, prices) for row in found}
            states = past.states()
            jobs = sum(row.number for row in states)
            oldest_us = past.oldest_queued_us()
            use = _levels(past.use(machines, buckets), KINDS, buckets)
            if not (capacity and capacity.total.gpus) and not any(use["gpus"].peak):
                del use["gpus"]
            return FleetHistory(
                since=buckets.start_us / 1e6,
                until=now_us / 1e6,
                jobs=jobs,
                times=buckets.times,
                use={"memoryBytes" if kind == "memory_bytes" else kind: level for kind, level in use.items()},
                queue=_levels(past.queue(buckets), ["jobs"], buckets)["jobs"],
                waits=_waits(past.waits(machines)),
                outcomes=_outcomes(states),
                failures=[
                    CauseOfFailures(cause=Cause(row.cause), jobs=row.number, latest=_ended(row, good=False))
                    for row in past.failures()
                ],
                cost=_costs(past, request, machines, found, states, now_us) if request.prices else None,
                models=_models(past.models(2 * MAX_MODELS)),
                oldest_queued=None if oldest_us is None else oldest_us / 1e6,
                uncounted=max(jobs - sum(row.number for row in found), 0),
            )


def _machines(key: str, capacity: Capacity | None, prices: PriceList) -> Machines:
    training = machines_of_key(key)
    load = promised_room(training, capacity)
    try:
        rate = prices.cost_per_second(training)
    except InvalidPrice:
        rate = None
    return Machines(
        name=machine_type(training),
        cpus=load.cpus,
        memory_bytes=load.memory_bytes,
        gpus=load.gpus,
        replicas=load.replicas,
        rate=rate,
    )


def _levels(rows: Sequence[Any], names: Sequence[str], buckets: Buckets) -> dict[str, Series]:
    """Return the series of each name: a row is a bucket."""
    by_place = {row.place: row._mapping for row in rows}
    found = [by_place[place] for place in range(len(buckets.times))]
    return {
        name: Series(
            mean=[
                _rounded(row[f"{name}_total"] / length)
                for row, length in zip(found, buckets.lengths_us, strict=True)
            ],
            peak=[_rounded(row[f"{name}_peak"]) for row in found],
            now=_rounded(found[-1][f"{name}_now"]),
        )
        for name in names
    }


def _rounded(level: float) -> float:
    # What rounding left of amounts that came and went may be below 0.
    return max(round(float(level), _DIGITS), 0.0)


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


def _costs(
    past: Past,
    request: FleetHistoryRequest,
    machines: Mapping[str, Machines],
    found: Sequence[Any],
    states: Sequence[Any],
    now_us: int,
) -> CostHistory:
    buckets = Buckets.until(now_us, request.window_seconds, request.cost_step_seconds)
    places = {start: place for place, start in enumerate(buckets.starts_us)}
    amounts: dict[str | None, list[float]] = {}
    for row in past.costs(machines, request.cost_label, buckets, MAX_GROUPS):
        amounts.setdefault(row.name, [0.0] * len(places))[places[row.at_us]] = float(row.amount)
    groups = [
        CostGroup(name=name, amounts=of_name, total=math.fsum(of_name)) for name, of_name in amounts.items()
    ]
    groups.sort(key=lambda group: (group.name is None, -group.total, group.name or ""))
    priced = sum(row.started for row in found if machines[row.key].rate is not None)
    return CostHistory(
        times=buckets.times,
        seconds=request.cost_step_seconds,
        groups=groups,
        total=math.fsum(group.total for group in groups),
        unpriced=max(sum(row.started for row in states) - priced, 0),
        keys=list(past.label_keys(MAX_KEYS)),
    )


def _models(rows: Sequence[Any]) -> list[ModelHistory]:
    by_model: dict[str, list[EndedJob]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(_ended(row, good=bool(row.good)))
    return [
        # The newest of the two comes first.
        ModelHistory(
            model=model, latest=ended[0], last_good=next((each for each in ended if each.good), None)
        )
        for model, ended in by_model.items()
    ]


def _ended(row: Any, *, good: bool) -> EndedJob:
    return EndedJob(id=row.job_id, end_time=row.ended_us / 1e6, good=good)
