"""
What the training service says of a fleet's past (``fleet:history``), as pydantic models.

Times are seconds since the epoch. A series has one value for each bucket of time.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from training_api.causes import Cause
from training_api.fleet.wire import DagLabels
from training_api.job.labels import DAG_LABEL
from training_api.states import JobState
from training_api.wire import Int32, WireModel

#: Of one series: more than a screen is wide.
MAX_BUCKETS = 500
#: Costs with names; the rest is one sum.
MAX_GROUPS = 7
#: The most used keys of labels, and the models that were trained last.
MAX_KEYS, MAX_MODELS = 30, 1000
#: The most used different sets of machines; jobs on others are counted alone.
MAX_MACHINES = 1000
#: Sums of such prices stay finite.
_Price = Annotated[float, Field(ge=0, le=1e12)]


class FleetHistoryRequest(WireModel):
    """
    Which past is asked for: a window until now, of at most 366 days.

    :param step_seconds: the length of a bucket of the use and of the queue.
    :param cost_step_seconds: the length of a bucket of costs.
    :param dags: as in a search.
    :param cost_label: costs are grouped by the value of this label.
    :param prices: machine type or accelerator -> price per second; empty: no costs are computed.
    """

    window_seconds: Annotated[Int32, Field(ge=60, le=366 * 86_400)]
    step_seconds: Annotated[Int32, Field(ge=1)]
    cost_step_seconds: Annotated[Int32, Field(ge=1)]
    dags: DagLabels | None = None
    cost_label: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")] = DAG_LABEL
    prices: Annotated[dict[str, _Price], Field(max_length=1000)] = {}

    @field_validator("step_seconds", "cost_step_seconds")
    @classmethod
    def _makes_few_buckets(cls, step: int, info: ValidationInfo) -> int:
        window = info.data.get("window_seconds", 0)
        if window > step * MAX_BUCKETS:
            raise ValueError(
                f"must be at least {math.ceil(window / MAX_BUCKETS)}, so that a window of {window} seconds "
                f"has at most {MAX_BUCKETS} buckets; got {step}"
            )
        return step


class Series(WireModel):
    """A level over time: average and maximum by bucket, and what it is now."""

    mean: list[float] = []
    peak: list[float] = []
    now: float = 0.0


class Percentiles(WireModel):
    """The median and the 95th percentile of times, in seconds; interpolated."""

    p50: float
    p95: float


class MachineWaits(WireModel):
    """
    How long jobs waited whose master is of one machine type.

    Of waits that ended in the window.

    :param queue: until they left the queue; ``prepare``: from then until RUNNING. ``None``: no job did.
    """

    machine: str
    jobs: int
    queue: Percentiles | None = None
    prepare: Percentiles | None = None


class EndedJob(WireModel):
    """A job, when it ended, and whether it succeeded."""

    id: str
    end_time: float
    good: bool


class Failures(WireModel):
    """How many jobs failed for one cause, and the last of them."""

    cause: Cause
    jobs: int
    latest: EndedJob


class CostGroup(WireModel):
    """
    The cost of the jobs with one value of a label, by bucket.

    :param name: the value; empty: jobs without the label. ``None``: jobs with any other value.
    """

    name: str | None = None
    amounts: list[float]
    total: float


class CostHistory(WireModel):
    """
    The cost of each second of RUNNING, in its bucket.

    :param times: where each bucket begins; ``seconds``: how long one is.
    :param groups: the most expensive first, at most ``MAX_GROUPS`` with names.
    :param unpriced: jobs that ran on machines without a price.
    :param keys: of labels that people gave, the most used first.
    """

    times: list[float]
    seconds: int
    groups: list[CostGroup] = []
    total: float = 0.0
    unpriced: int = 0
    keys: list[str] = []


class ModelHistory(WireModel):
    """Of the jobs that trained a model, the last that succeeded and the last that ended."""

    model: str
    last_good: EndedJob | None = None
    latest: EndedJob


class FleetHistory(WireModel):
    """
    A fleet's past, until now.

    :param since: where the first bucket begins: the window, from the last multiple of its step.
    :param jobs: how many there were in the window: they had not ended before it.
    :param times: where each bucket of ``use`` and ``queue`` begins.
    :param use: what jobs held of each kind of capacity, from PREPARING until their end.
    :param queue: how many jobs were queued.
    :param failures: the most common cause first.
    :param cost: ``None``: the request has no prices.
    :param models: however long ago their jobs ended.
    :param oldest_queued: when the job was created that has been queued for longest.
    :param uncounted: jobs on machines beyond the ``MAX_MACHINES`` most used; no use, wait or cost has them.
    """

    since: float
    until: float
    jobs: int = 0
    times: list[float]
    use: dict[str, Series] = {}
    queue: Series = Series()
    waits: list[MachineWaits] = []
    outcomes: dict[JobState, int] = {}
    failures: list[Failures] = []
    cost: CostHistory | None = None
    models: list[ModelHistory] = []
    oldest_queued: float | None = None
    uncounted: int = 0
