"""
The jobs of the last month, for the fleet page.

They are requested whole once, and then only what has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from container_training.work.models.age import MODEL_LABEL
from training_api.causes import Cause
from training_api.dialects.ml_v1.job_rows import JobRow, SearchJobsResponse
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.dialects.ml_v1.roles import ROLES, configs_of
from training_api.fleet.wire import MAX_SEARCH_PAGE, SearchJobsRequest
from training_api.job.labels import DAG_LABEL
from training_api.states import JobState
from training_api.wire import format_timestamp

#: The longest window that the page offers.
HORIZON = timedelta(days=30)
#: More jobs than this are not held: the newest count.
MAX_JOBS = 2 * MAX_SEARCH_PAGE
#: A change may be written later than the moment that it states; and clocks differ.
_OVERLAP = timedelta(minutes=2)
#: All is asked for anew after so long: labels of jobs that have ended may be changed too.
_WHOLE_SECONDS = 1800.0
#: Between two questions lies at least this, and so many times what the last one took.
_LEAST_SECONDS = 1.0
_SHARE = 10.0

Search = Callable[[SearchJobsRequest], SearchJobsResponse]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """
    What jobs on the same machines share.

    Compared by identity, so that derived values are computed once.
    """

    training: TrainingInput


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetJob:
    """
    One job; times are seconds since the epoch, ``None`` for what it has not come to.

    :param runs: how many of its runs there were side by side on average: 1, or of a tuning job its trials.
    :param cause: why it failed; ``None``: it did not.
    """

    job_id: str
    state: JobState
    labels: dict[str, str]
    shape: Shape
    created: float
    prepared: float | None
    started: float | None
    ended: float | None
    runs: float
    is_study: bool
    cause: Cause | None

    @property
    def dag(self) -> str:
        """The label of its DAG; empty: it has none."""
        return self.labels.get(DAG_LABEL, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """
    Jobs that run or ended within ``HORIZON``, and older ones that trained a model well.

    :param number: another one when the jobs are others.
    :param since: before it, jobs are missing, as there are more than ``MAX_JOBS``; ``None``: none are.
    """

    jobs: tuple[FleetJob, ...]
    older_models: tuple[FleetJob, ...]
    number: int
    since: float | None


class Ledger:
    """
    The jobs of one service; may be used by several threads.

    :param search: asks the service.
    :param clock: seconds; ``now``: the time of day; both for tests.
    """

    def __init__(
        self,
        search: Search,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._search = search
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()
        self._jobs: dict[str, FleetJob] = {}
        self._shapes: dict[Hashable, Shape] = {}
        self._older_models: tuple[FleetJob, ...] = ()
        self._since: float | None = None
        self._asked_at: datetime | None = None
        self._whole_until = float("-inf")
        self._fresh_until = float("-inf")
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """
        Return the jobs as they are about now.

        :raises TrainingError: the service does not answer, or refuses.
        """
        with self._lock:
            started = self._clock()
            if self._snapshot is None or started >= self._fresh_until:
                changed = self._load_whole() if started >= self._whole_until else self._load_changes()
                if changed or self._snapshot is None:
                    self._snapshot = self._take()
                ended = self._clock()
                self._fresh_until = ended + max(_LEAST_SECONDS, _SHARE * (ended - started))
            return self._snapshot

    def _take(self) -> Snapshot:
        return Snapshot(
            jobs=tuple(self._jobs.values()),
            older_models=self._older_models,
            number=self._snapshot.number + 1 if self._snapshot else 1,
            since=self._since,
        )

    def _load_whole(self) -> bool:
        now = self._now()
        horizon = now - HORIZON
        rows, is_all = self._rows(SearchJobsRequest(changed_after=horizon, page_size=MAX_SEARCH_PAGE))
        older = SearchJobsRequest(
            filter=(
                f"state={JobState.SUCCEEDED} AND labels.{MODEL_LABEL}:* "
                f'AND createTime<"{format_timestamp(horizon)}"'
            ),
            page_size=MAX_SEARCH_PAGE,
        )
        self._older_models = _newest_of_models(map(self._job, self._search(older).jobs))
        self._jobs = {row.job_id: self._job(row) for row in rows}
        self._since = None if is_all else min(job.created for job in self._jobs.values())
        self._asked_at = now
        self._whole_until = self._clock() + _WHOLE_SECONDS
        return True

    def _load_changes(self) -> bool:
        now = self._now()
        assert self._asked_at is not None  # noqa: S101  # set by the first look, which is at all
        changed_after = self._asked_at - _OVERLAP
        rows, is_all = self._rows(SearchJobsRequest(changed_after=changed_after, page_size=MAX_SEARCH_PAGE))
        found = {row.job_id: self._job(row) for row in rows}
        lost = [job for job in self._jobs.values() if job.ended is None and job.job_id not in found]
        if lost or not is_all:
            return self._load_whole()  # an end was written late, or the service has another database
        is_same = all(self._jobs.get(job_id) == job for job_id, job in found.items())
        self._jobs.update(found)
        self._asked_at = now
        return not is_same

    def _rows(self, request: SearchJobsRequest) -> tuple[list[JobRow], bool]:
        """Return at most ``MAX_JOBS`` rows, and whether those are all."""
        rows: list[JobRow] = []
        while True:
            page = self._search(request)
            rows += page.jobs
            if not page.next_page_token:
                return rows, True
            if len(rows) >= MAX_JOBS:
                return rows, False
            request = request.model_copy(update={"page_token": page.next_page_token})

    def _job(self, row: JobRow) -> FleetJob:
        shape = self._shapes.setdefault(_machines_key(row.training_input), Shape(row.training_input))
        started, ended = _seconds(row.start_time), _seconds(row.end_time)
        return FleetJob(
            job_id=row.job_id,
            state=row.state,
            labels=row.labels,
            shape=shape,
            created=row.create_time.timestamp(),
            prepared=_seconds(row.prepare_time),
            started=started,
            ended=ended,
            runs=1.0 if row.trials is None else self._side_by_side(row.billed_seconds, started, ended),
            is_study=row.trials is not None,
            cause=_cause(row) if row.state is JobState.FAILED else None,
        )

    def _side_by_side(self, billed_seconds: float, started: float | None, ended: float | None) -> float:
        if started is None:
            return 0.0
        elapsed = (ended or self._now().timestamp()) - started
        return billed_seconds / elapsed if elapsed > 0 else 0.0


def _machines_key(training: TrainingInput) -> Hashable:
    """Return what is equal for jobs of the same machines."""
    accelerators = [config.accelerator_config if config else None for config in configs_of(training)]
    return (
        training.scale_tier,
        *((fields.machine_of(training), fields.count_of(training)) for fields in ROLES),
        *((each.type, each.count) if each else None for each in accelerators),
    )


def _cause(row: JobRow) -> Cause:
    return row.reason.cause if row.reason else Cause.UNKNOWN


def _newest_of_models(jobs: Iterable[FleetJob]) -> tuple[FleetJob, ...]:
    """Return of each model and DAG, whose readers differ, the job that ended last."""
    newest: dict[tuple[str, str], FleetJob] = {}
    for job in jobs:
        key = (job.labels.get(MODEL_LABEL, ""), job.dag)
        if job.ended is not None and (key not in newest or job.ended > (newest[key].ended or 0.0)):
            newest[key] = job
    return tuple(newest.values())


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None
