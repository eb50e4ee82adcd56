"""
The fleet's past, on every database, beside what a test computes from the same jobs.

The test's own arithmetic is plain: it looks at each job for each figure.
"""

from __future__ import annotations

import json
import random
import statistics
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.fakes.stored_jobs import machines_in, store_job
from training_api.causes import Cause
from training_api.fleet.history import MAX_GROUPS, FleetHistory, FleetHistoryRequest
from training_api.job.capacity import Capacity
from training_api.job.machines import GIB, Resources
from training_api.states import TERMINAL, JobState
from training_service.model.job_machines import RoleMachines, cost_per_second, machines_name, promised_room
from training_service.use_cases.history_book import HistoryBook

NOW = datetime(2026, 11, 20, 12, 34, 56, 789_012, tzinfo=UTC)
NOW_US = round(NOW.timestamp() * 1e6)
HOUR = 3_600_000_000
_ROOM = Resources(cpus=16, memory_bytes=60 * GIB, gpus=1)
CAPACITY = Capacity(each=_ROOM, total=Resources(cpus=64, memory_bytes=240 * GIB, gpus=4))
PRICES = {"n1-standard-4": 0.5, "n1-standard-8": 0.25, "NVIDIA_TESLA_T4": 1.0}
WINDOWS: list[dict[str, Any]] = [
    {"window_seconds": 86_400, "step_seconds": 600, "cost_step_seconds": 3600},
    {"window_seconds": 7 * 86_400, "step_seconds": 3600, "cost_step_seconds": 21_600, "cost_label": "team"},
]
REQUESTS: tuple[dict[str, Any], ...] = (
    {"scaleTier": "CUSTOM", "masterType": "n1-standard-4"},
    {"scaleTier": "CUSTOM", "masterType": "n1-standard-8", "workerType": "n1-standard-4", "workerCount": "3"},
    {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": "i", "acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}},
    },
    {"scaleTier": "BASIC"},
    {"scaleTier": "BASIC_TPU"},
    {"scaleTier": "CUSTOM", "masterType": "n1-highmem-8"},
    {"masterType": "of-the-future", "scaleTier": "CUSTOM"},
    {},
)


@dataclass(slots=True)
class Stored:
    """A job as the test keeps it; times are microseconds."""

    job_id: str
    state: str
    labels: dict[str, str]
    request: dict[str, Any]
    created: int
    prepared: int | None = None
    started: int | None = None
    ended: int | None = None
    cause: str = ""
    #: When its trials began and ended; ``None``: it is no tuning job.
    trials: list[tuple[int | None, int | None]] | None = None

    @property
    def machines(self) -> tuple[RoleMachines, ...]:
        return machines_in(self.request)

    @property
    def runs(self) -> float:
        """How many runs were side by side on average."""
        if self.trials is None:
            return 1.0
        elapsed = (self.ended or NOW_US) - (self.started or NOW_US)
        ran = sum((end or NOW_US) - start for start, end in self.trials if start is not None)
        return ran / elapsed if elapsed > 0 else 0.0


def random_jobs(chance: random.Random, count: int) -> list[Stored]:
    return [random_job(chance, place) for place in range(count)]


def random_job(chance: random.Random, place: int) -> Stored:
    """Return a job of any state, also one that never left the queue, or whose clock went back."""
    created = NOW_US - chance.randrange(10 * 24 * HOUR)
    moments = [created]
    for longest in (HOUR, HOUR // 6, 12 * HOUR):
        moments.append(moments[-1] + chance.randrange(-1000, longest))
    state = chance.choice([*JobState, JobState.SUCCEEDED, JobState.FAILED, "OF_THE_FUTURE"])
    times: list[int | None] = [None if moment > NOW_US else moment for moment in moments[1:]]
    for step in range(2, -1, -1):
        if chance.random() < 0.1:
            times[step] = None
    if state in {each.value for each in JobState} - {each.value for each in TERMINAL}:
        times[2] = None
    elif times[2] is None:
        state = JobState.RUNNING
    labels = {
        "airflow-dag": chance.choice(["mine", "theirs", "d'ring", *(f"d{number}" for number in range(9))]),
        "team": chance.choice(["a", "b", "ü", "zz"]),
        "model": chance.choice(["digits", "clicks", ""]),
        "airflow-owner": "x",
    }
    job = Stored(
        job_id=f"job_{place}",
        state=str(state),
        labels={key: value for key, value in labels.items() if chance.random() < 0.8},
        request=dict(chance.choice(REQUESTS)),
        created=created,
        prepared=times[0],
        started=times[1],
        ended=times[2],
        cause=chance.choice([*Cause, "", "OF_THE_FUTURE"]) if state == JobState.FAILED else "",
    )
    if chance.random() < 0.2:
        job.request["hyperparameters"] = {"maxTrials": 3}
        job.trials = [random_trial(chance, job) for _ in range(chance.randrange(4))]
    return job


def random_trial(chance: random.Random, job: Stored) -> tuple[int | None, int | None]:
    if job.started is None or chance.random() < 0.1:
        return None, None
    start = job.started + chance.randrange(HOUR)
    end = start + chance.randrange(HOUR)
    return min(start, NOW_US), end if end < NOW_US else None


def store(database: sa.Engine, job: Stored) -> None:
    store_job(
        database,
        job.job_id,
        job.created,
        state=job.state,
        labels=job.labels,
        training_input=job.request,
        preparing_us=job.prepared,
        running_us=job.started,
        ended_us=job.ended,
        reason={"cause": job.cause} if job.cause else {},
    )
    for number, (start, end) in enumerate(job.trials or (), 1):
        uid = f"uid-{job.job_id}"
        name = f"{uid}/{number}"
        times = {"running_us": start, "ended_us": end}
        store_job(database, name, job.created, study_uid=uid, training_input=job.request, **times)


def history(database: sa.Engine, **request: Any) -> FleetHistory:
    book = HistoryBook(database, lambda: CAPACITY, lambda: NOW)
    # As it is over HTTP.
    return FleetHistory.model_validate(book.of("p", FleetHistoryRequest(**request)).to_wire())


# The plain arithmetic


def bounds(start: int, step: int) -> list[tuple[int, int]]:
    return [(at, min(at + step, NOW_US)) for at in range(start, NOW_US, step)]


def levels(spans: list[tuple[int, int, float]], buckets: list[tuple[int, int]]) -> tuple[list[float], ...]:
    """Return mean and peak by bucket: each moment at which a span begins or ends is looked at."""
    means, peaks = [], []
    for start, end in buckets:
        near = [(max(a, start), min(b, end), amount) for a, b, amount in spans if a < end and b > start]
        near = [each for each in near if each[1] > each[0]]
        means.append(sum((b - a) * amount for a, b, amount in near) / (end - start))
        moments = {a for a, _, _ in near}
        peaks.append(
            max((sum(amount for a, b, amount in near if a <= at < b) for at in moments), default=0.0)
        )
    return means, peaks


def held_spans(jobs: list[Stored], of: Any) -> list[tuple[int, int, float]]:
    spans = []
    for job in jobs:
        since = job.started if job.trials is not None else job.prepared or job.started
        if since is not None:
            load = promised_room(job.machines, CAPACITY)
            spans.append((since, job.ended or NOW_US, job.runs * of(load)))
    return spans


def waits(jobs: list[Stored], since: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for job in jobs:
        phases = found.setdefault(machines_name(job.machines), {"queue": [], "prepare": []})
        left = job.prepared or job.started
        if left is not None and left > since:
            phases["queue"].append(max(left - job.created, 0) / 1e6)
        if job.prepared is not None and job.started is not None and job.started > since:
            phases["prepare"].append(max(job.started - job.prepared, 0) / 1e6)
    return {name: phases for name, phases in found.items() if any(phases.values())}


def costs(
    jobs: list[Stored], label: str, buckets: list[tuple[int, int]]
) -> tuple[dict[Any, list[float]], int]:
    """Return the amounts of each group by bucket, and how many jobs ran without a price."""
    groups: dict[Any, list[float]] = {}
    unpriced = 0
    for job in jobs:
        if job.started is None:
            continue
        rate = cost_per_second(job.machines, PRICES)
        if rate is None:
            unpriced += 1
            continue
        amounts = groups.setdefault(job.labels.get(label, ""), [0.0] * len(buckets))
        for place, (start, end) in enumerate(buckets):
            seconds = max(min(job.ended or NOW_US, end) - max(job.started, start), 0) / 1e6
            amounts[place] += seconds * rate * job.runs
    return groups, unpriced


def p50_p95(values: list[float]) -> tuple[float, float] | None:
    if len(values) < 2:
        return (values[0], values[0]) if values else None
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return cuts[9], cuts[18]


def state_of(job: Stored) -> str:
    return job.state if job.state in [*JobState] else "FAILED"


# The comparison


@pytest.fixture
def jobs(database: sa.Engine) -> list[Stored]:
    found = random_jobs(random.Random(11), 250)
    for job in found:
        store(database, job)
    return found


@pytest.mark.extended
@pytest.mark.parametrize("dags", [None, ["mine", "d'ring", *(f"other-{place}" for place in range(5000))]])
@pytest.mark.parametrize("window", WINDOWS, ids=["day", "week"])
def test_every_figure_is_that_of_plain_arithmetic(
    database: sa.Engine, jobs: list[Stored], window: dict[str, Any], dags: list[str] | None
) -> None:
    step, cost_step = window["step_seconds"] * 1_000_000, window["cost_step_seconds"] * 1_000_000
    start = (NOW_US - window["window_seconds"] * 1_000_000) // step * step
    visible = [job for job in jobs if dags is None or job.labels.get("airflow-dag") in dags]
    recent = [job for job in visible if job.ended is None or job.ended > start]
    buckets = bounds(start, step)

    found = history(database, **window, dags=dags, prices=PRICES)

    assert len(recent) > 20
    assert (found.jobs, found.uncounted) == (len(recent), 0)
    assert found.times == [at / 1e6 for at, _ in buckets]
    kinds = {
        "cpus": lambda load: load.cpus,
        "memoryBytes": lambda load: load.memory_bytes,
        "gpus": lambda load: load.gpus,
        "replicas": lambda load: load.replicas,
    }
    assert set(found.use) == set(kinds)
    for kind, of in kinds.items():
        spans = held_spans(recent, of)
        means, peaks = levels(spans, buckets)
        assert found.use[kind].mean == pytest.approx(means, rel=1e-9, abs=1e-3)
        assert found.use[kind].peak == pytest.approx(peaks, rel=1e-9, abs=1e-3)
        now = sum(amount for since, until, amount in spans if since < NOW_US <= until)
        assert found.use[kind].now == pytest.approx(now, rel=1e-9, abs=1e-3)
    queued = [(job.created, job.prepared or job.started or job.ended or NOW_US, 1.0) for job in recent]
    means, peaks = levels(queued, buckets)
    assert found.queue.mean == pytest.approx(means, abs=1e-3)
    assert found.queue.peak == peaks
    _assert_waits(found, recent, start)
    _assert_ends(found, recent, visible)
    cost_start = (NOW_US - window["window_seconds"] * 1_000_000) // cost_step * cost_step
    _assert_costs(found, recent, window.get("cost_label", "airflow-dag"), bounds(cost_start, cost_step))


def _assert_waits(found: FleetHistory, recent: list[Stored], start: int) -> None:
    expected = waits(recent, start)
    assert {row.machine for row in found.waits} == set(expected)
    for row in found.waits:
        phases = expected[row.machine]
        assert row.jobs == max(map(len, phases.values()))
        for shown, values in ((row.queue, phases["queue"]), (row.prepare, phases["prepare"])):
            cuts = p50_p95(values)
            assert (shown and (shown.p50, shown.p95)) == (cuts and pytest.approx(cuts))
    order = [(-row.jobs, row.machine) for row in found.waits]
    assert order == sorted(order)


def _assert_ends(found: FleetHistory, recent: list[Stored], visible: list[Stored]) -> None:
    ended = [job for job in recent if job.ended is not None]
    outcomes = Counter(state_of(job) for job in ended)
    assert found.outcomes == {state: outcomes[state.value] for state in JobState if state in TERMINAL}
    failed: dict[str, list[Stored]] = {}
    for job in ended:
        if state_of(job) == "FAILED":
            cause = job.cause if job.cause in [*Cause] else "UNKNOWN"
            failed.setdefault(cause, []).append(job)
    assert [(row.cause.value, row.jobs, row.latest.id) for row in found.failures] == [
        (cause, len(of_cause), max(of_cause, key=lambda job: job.ended or 0).job_id)
        for cause, of_cause in sorted(failed.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    queued = [job.created for job in visible if job.state == "QUEUED"]
    assert found.oldest_queued == (min(queued) / 1e6 if queued else None)
    for model in ("digits", "clicks"):
        trained = [
            job
            for job in sorted(visible, key=lambda job: job.ended or 0)
            if job.ended and job.labels.get("model") == model and job.state != "CANCELLED"
        ]
        good = [job.job_id for job in trained if job.state == "SUCCEEDED"]
        (shown,) = [row for row in found.models if row.model == model]
        assert (shown.latest.id, shown.last_good and shown.last_good.id) == (
            trained[-1].job_id,
            good[-1] if good else None,
        )


def _assert_costs(
    found: FleetHistory, recent: list[Stored], label: str, buckets: list[tuple[int, int]]
) -> None:
    groups, unpriced = costs(recent, label, buckets)
    cost = found.cost
    assert cost is not None
    assert cost.times == [start / 1e6 for start, _ in buckets]
    assert cost.unpriced == unpriced
    assert cost.total == pytest.approx(sum(map(sum, groups.values())))
    dearest = [name for name in sorted(groups, key=lambda name: -sum(groups[name])) if sum(groups[name]) > 0]
    named = dearest[:MAX_GROUPS]
    rest = [None] if dearest[MAX_GROUPS:] else []
    assert [group.name for group in cost.groups] == [*named, *rest]
    expected = [groups[name] for name in named]
    if rest:
        expected.append(
            [sum(groups[name][place] for name in dearest[MAX_GROUPS:]) for place in range(len(buckets))]
        )
    for group, amounts in zip(cost.groups, expected, strict=True):
        assert group.amounts == pytest.approx(amounts)
    keys = Counter(key for job in recent for key in job.labels if not key.startswith("airflow-"))
    assert cost.keys == sorted(keys, key=lambda key: (-keys[key], key))


def test_an_answer_does_not_grow_with_the_number_of_jobs(database: sa.Engine) -> None:
    def size() -> int:
        return len(json.dumps(history(database, **WINDOWS[0], prices=PRICES).to_wire()))

    def add(first: int, count: int) -> None:
        for place in range(first, first + count):
            # Each has a DAG, a value and a key of its own.
            labels = {"airflow-dag": f"d{place:04}", f"key-{place:04}": "x"}
            ended = NOW_US - HOUR - place
            times = {"preparing_us": ended - 3, "running_us": ended - 2, "ended_us": ended}
            store_job(database, f"job_{place:04}", ended - 9, state="SUCCEEDED", labels=labels, **times)

    add(0, 60)
    few = size()
    add(60, 240)

    assert size() == pytest.approx(few, rel=0.1)
