"""
The curves of jobs that somebody watches, cached in memory and extended by new reports.

A trainer may report a million times, and a page polls every few seconds: reading everything each time would
cost a core.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from training_api.fleet.thinning import kept_places
from training_api.fleet.wire import Curve
from training_api.job.tuning.measurement import Report
from training_service.store.measurement_store import MeasurementStore

#: The most points of a curve; more than a screen is wide.
MAX_POINTS = 3000
#: The most points of all curves of a job, six megabytes of memory; but each has ``LEAST_POINTS``.
MAX_ALL_POINTS = 60_000
LEAST_POINTS = 40
#: The most jobs in the cache.
MAX_JOBS = 16


def points_each(curves: int) -> int:
    """Return how many points each of a job's curves may have. Pure."""
    return max(min(MAX_POINTS, MAX_ALL_POINTS // max(curves, 1)), LEAST_POINTS)


@dataclass(slots=True)
class _Curve:
    steps: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def add(self, report: Report, most: int) -> None:
        self.steps.append(report.step)
        self.values.append(report.value if math.isfinite(report.value) else None)
        self.times.append(report.reported_us / 1e6)
        if len(self.steps) > most:
            # To half of the limit, so that not every new point needs it.
            self.thin(most // 2)

    def thin(self, most: int) -> None:
        places = kept_places(self.values, most)
        self.steps = [self.steps[place] for place in places]
        self.values = [self.values[place] for place in places]
        self.times = [self.times[place] for place in places]


@dataclass(slots=True)
class _Curves:
    """The curves of one job."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    #: Uid of the job, or of a trial -> id of the last report that was read.
    read_to: dict[str, int] = field(default_factory=dict)
    #: (id of the trial, tag) -> curve.
    by_name: dict[tuple[str, str], _Curve] = field(default_factory=dict)


class CurveBook:
    """Reads measurements; safe for threads."""

    def __init__(self, measurements: MeasurementStore) -> None:
        self._measurements = measurements
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, _Curves] = OrderedDict()

    def of_job(self, job_uid: str) -> list[Curve]:
        """Return a thinned curve for each tag of the job and of its trials; no peak is lost."""
        with self._lock:
            curves = self._jobs.setdefault(job_uid, _Curves())
            self._jobs.move_to_end(job_uid)
            while len(self._jobs) > MAX_JOBS:
                self._jobs.popitem(last=False)
        with curves.lock:
            self._grow(curves, job_uid)
            return [
                Curve(
                    tag=tag, trial_id=trial_id, steps=[*one.steps], values=[*one.values], times=[*one.times]
                )
                for (trial_id, tag), one in curves.by_name.items()
            ]

    def _grow(self, curves: _Curves, job_uid: str) -> None:
        trial_ids = self._measurements.reporters(job_uid)
        read_to = {uid: curves.read_to.get(uid, 0) for uid in trial_ids}
        for id_, uid, report in self._measurements.since(read_to):
            curve = curves.by_name.setdefault((trial_ids[uid], report.tag), _Curve())
            curve.add(report, points_each(len(curves.by_name)))
            curves.read_to[uid] = id_
        # More curves leave fewer points for each.
        most = points_each(len(curves.by_name))
        for curve in curves.by_name.values():
            if len(curve.steps) > most:
                curve.thin(most)
