"""
What the training service tells those who watch it (``/ops/v1``), as pydantic models.

Not Google's: the API of AI Platform Training has no replicas' times, no use of resources, and no totals.
Whoever needs no more than a job's state and results should ask Google's own methods.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from training_api.causes import Cause
from training_api.wire import Int32, Timestamp, WireModel

#: Enough for a report on all jobs of a week at a job a minute.
MAX_SEARCH_PAGE = 10_000
DEFAULT_SEARCH_PAGE = 50
#: PostgreSQL has no NUL in texts; a label has none either.
_LabelValue = Annotated[str, Field(pattern=r"^[^\x00]*$")]
#: Values of the label ``airflow-dag``.
DagLabels = Annotated[list[_LabelValue], Field(max_length=10_000)]
#: About a megabyte of JSON.
MAX_MEASUREMENTS_PAGE = 10_000


def _not_a_number(value: object) -> object:
    if isinstance(value, (int, float)):
        raise ValueError(f"must be an RFC 3339 time like '2026-01-31T12:00:00Z', got {value!r}")
    return value


class SearchJobsRequest(WireModel):
    """
    Which jobs are asked for, newest first.

    :param filter: as in ``projects.jobs.list``.
    :param dags: only jobs whose label ``airflow-dag`` is one of these; ``None``: all jobs, whoever submitted
        them.
    :param changed_after: only jobs that have not ended, or ended later.
    :param page_size: from 1 to ``MAX_SEARCH_PAGE``; more is cut, 0 is the default.
    """

    filter: str = ""
    dags: DagLabels | None = None
    changed_after: Annotated[Timestamp, BeforeValidator(_not_a_number)] | None = None
    page_size: Int32 = DEFAULT_SEARCH_PAGE
    page_token: str = ""


class TrialCounts(WireModel):
    """How far a tuning job is: trials that were made, and those of them that have ended."""

    total: int
    ended: int


class JobReason(WireModel):
    """
    Why a job failed or was cancelled, for programs; ``errorMessage`` says it to people.

    :param replica: the replica that is to blame, ``worker 1``; empty: none of them.
    :param exit_code: the status with which that replica ended.
    :param failed_trials: of a tuning job: how many trials have failed. All else is then the last one's.
    """

    cause: Cause = Cause.UNKNOWN
    replica: str = ""
    exit_code: Int32 | None = None
    failed_trials: Int32 = 0


class SpanKind(StrEnum):
    """What took the time of a span."""

    PULL = "PULL"  #: an image came onto the engine
    RUN = "RUN"  #: a replica's container ran


class Span(WireModel):
    """
    A stretch of a job's time.

    :param name: the image, or the replica's task name (``master-replica-0``).
    :param attempt: which run of the replica: ``RETRY.RESTART``.
    :param pinned: of a pull: the image by digest; of a runtime version: its name and the engine's id.
    :param trial_id: of a tuning job; empty: of the job itself.
    :param end_time: ``None``: it goes on, or nobody saw its end.
    """

    kind: SpanKind
    name: str
    pinned: str = ""
    attempt: str = ""
    trial_id: str = ""
    start_time: Timestamp
    end_time: Timestamp | None = None
    exit_code: int | None = None
    out_of_memory: bool = False


class TimelineResponse(WireModel):
    """The spans of one job, oldest first."""

    spans: list[Span] = []


class UsageSeries(WireModel):
    """
    What one replica used over time; the lists are of one length.

    :param cpu_limit: cores that it may use.
    :param times: seconds since the epoch, ascending; a series may have gaps.
    :param cpu_cores: cores in use, on average since the sample before.
    :param gpus: GPUs that were busy at that moment, each by the share of the time; ``None``: it had none, or
        nobody could tell.
    :param gpu_memory_bytes: in use on all of its GPUs together; ``None`` as above.
    """

    replica: str
    trial_id: str = ""
    cpu_limit: float | None = None
    memory_limit_bytes: int | None = None
    gpu_limit: int | None = None
    times: list[float] = []
    cpu_cores: list[float] = []
    memory_bytes: list[int] = []
    gpus: list[float | None] = []
    gpu_memory_bytes: list[int | None] = []


class UsageResponse(WireModel):
    """CPU, memory and GPUs of a job's replicas."""

    series: list[UsageSeries] = []


class Curve(WireModel):
    """
    What a job, or one of its trials, reported under one tag.

    The lists have one length, in the order of the reports.

    :param times: seconds since the epoch.
    :param values: ``None`` for what was not a number.
    """

    tag: str
    trial_id: str = ""
    steps: list[int] = []
    values: list[float | None] = []
    times: list[float] = []


class CurvesResponse(WireModel):
    """The curves of one job, by trial and tag."""

    curves: list[Curve] = []


class MeasurementsRequest(WireModel):
    """
    Whose measurements are asked for, oldest first.

    :param tag: default: the metric of the job's study.
    :param trial_id: of a tuning job; empty: the job itself.
    :param page_token: ``nextPageToken`` of the page before.
    """

    tag: str = ""
    trial_id: str = ""
    page_size: Annotated[int, Field(ge=1, le=MAX_MEASUREMENTS_PAGE)] = 1000
    page_token: Annotated[str, Field(pattern=r"^[0-9]{0,18}$")] = ""


class MeasurementsResponse(WireModel):
    """
    One page of what a job, or one of its trials, reported under one tag.

    The lists have one length, in the order of the reports.

    :param times: seconds since the epoch.
    :param values: ``None`` for what was not a number.
    """

    steps: list[int] = []
    values: list[float | None] = []
    times: list[float] = []
    next_page_token: str = ""


class Room(WireModel):
    """Cores, bytes, GPUs and containers; as a capacity, 0 replicas stand for any number."""

    cpus: float
    memory_bytes: int
    gpus: int
    replicas: int


class FleetResponse(WireModel):
    """
    The service as a whole, now.

    :param capacity: what may be promised to jobs; ``None`` while the engine does not answer.
    :param largest: what one container may have at most; its ``replicas`` are 1.
    :param used: what is promised to those that prepare, run or end.
    :param hold: why no job is admitted, as a clause for people; empty: jobs are.
    """

    capacity: Room | None = None
    largest: Room | None = None
    used: Room | None = None
    queue_length: int = 0
    oldest_queued_time: Timestamp | None = None
    hold: str = ""


class VersionResponse(WireModel):
    """A text that is another one after every change of a job or trial of the project."""

    version: str
