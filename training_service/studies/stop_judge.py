"""
Which running trials of a study should be stopped early, judged outside the loop.

A judgement depends only on what is stored: the reports of the trial, and the curves of the completed trials.
It reads only new reports. After a restart it reads everything once more and comes to the same result, however
many reports it reads at once (``search/kept_curve.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from training_api.job.tuning.search_terms import Goal, Stopping
from training_service.search.early_stopping import Point, is_shadow
from training_service.search.kept_curve import KeptCurve
from training_service.store.measurement_store import MeasurementStore
from training_service.studies.study import EarlyStop

if TYPE_CHECKING:
    from training_service.search.stop_rules import Tracks

#: How many reports are read at once.
_CHUNK = 10_000

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrial:
    """
    A trial that may be stopped.

    :param begin_us: when it started to run, in microseconds since the epoch.
    :param newest_id: the id of its newest report; 0: none.
    """

    number: int
    begin_us: int
    newest_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyState:
    """
    All that judgements about a study's trials depend on, by the trials' uids.

    :param active: all trials that have not ended.
    :param running: those that may be stopped.
    :param completed: when the trials that succeeded without a stop started, in the order of the trials.
    :param stopping: by what rule; ``by_seconds``: whether it compares curves by seconds in any case.
    """

    study_uid: str
    tag: str
    goal: Goal
    seed: int
    active: frozenset[str]
    running: Mapping[str, RunningTrial]
    completed: Mapping[str, int]
    stopping: Stopping = Stopping.DECAY_CURVE
    by_seconds: bool = False


@dataclass(slots=True)
class _Curve:
    kept: KeptCurve = field(default_factory=KeptCurve)
    #: Id of the last report that was read.
    read_to: int = 0


@dataclass(slots=True)
class _Study:
    """One study; except for the last three fields, only one thread at a time uses it."""

    curves: dict[str, _Curve] = field(default_factory=dict)
    completed: dict[str, Tracks] = field(default_factory=dict)
    #: What a trial was judged by: its newest report, and the number of completed trials.
    judged: dict[str, tuple[tuple[int, int], EarlyStop | None]] = field(default_factory=dict)
    is_busy: bool = False
    state: StudyState | None = None
    stops: Mapping[str, EarlyStop] = field(default_factory=dict)


class StopJudge:
    """
    Judges studies one after the other; safe for threads.

    :param executor: runs judgements, which may take seconds with long curves; in tests: directly.
    :param on_stop: called when a trial should be stopped; wakes the loop.
    """

    def __init__(
        self, measurements: MeasurementStore, executor: Executor, on_stop: Callable[[], None]
    ) -> None:
        self._measurements = measurements
        self._executor = executor
        self._on_stop = on_stop
        self._lock = threading.Lock()
        self._studies: dict[str, _Study] = {}

    def stops(self, state: StudyState) -> dict[str, EarlyStop]:
        """
        Return which running trials should be stopped, as far as is known; never waits.

        Starts a new judgement if ``state`` has changed and none is running.
        """
        with self._lock:
            study = self._studies.setdefault(state.study_uid, _Study())
            is_due = not study.is_busy and study.state != state
            study.is_busy |= is_due
        if is_due:
            self._executor.submit(self._judge, study, state)
        with self._lock:
            return {uid: stop for uid, stop in study.stops.items() if uid in state.running}

    def keep(self, study_uids: Collection[str]) -> None:
        """Forget all studies but these."""
        with self._lock:
            self._studies = {uid: study for uid, study in self._studies.items() if uid in study_uids}

    def _judge(self, study: _Study, state: StudyState) -> None:
        try:
            stops = self._stops(study, state)
            with self._lock:
                study.stops, study.state = stops, state
        except Exception:
            # Judged again at the next iteration; the loop and other studies continue meanwhile.
            logger.exception("early stopping failed", study_uid=state.study_uid)
        finally:
            with self._lock:
                study.is_busy = False
        if study.stops:
            self._on_stop()

    def _stops(self, study: _Study, state: StudyState) -> dict[str, EarlyStop]:
        # NumPy is an extra that only a service that tunes needs.
        from training_service.search.stop_rules import stop_reason, tracks_of

        for uid, begin_us in state.completed.items():
            if uid not in study.completed:
                study.completed[uid] = tracks_of(self._curve(study, state, uid, begin_us), state.goal)
        completed = [study.completed[uid] for uid in state.completed]
        for uid, trial in state.running.items():
            judged_by = (trial.newest_id, len(completed))
            if uid in study.judged and study.judged[uid][0] == judged_by:
                continue
            curve = tracks_of(self._curve(study, state, uid, trial.begin_us), state.goal)
            found = stop_reason(curve, completed, state.goal, state.stopping, by_seconds=state.by_seconds)
            is_spared = is_shadow(state.seed, trial.number)
            stop = EarlyStop(reason=found.text, is_spared=is_spared) if found else None
            study.judged[uid] = judged_by, stop
        study.judged = {uid: judged for uid, judged in study.judged.items() if uid in state.running}
        study.curves = {uid: curve for uid, curve in study.curves.items() if uid in state.active}
        return {uid: stop for uid, (_, stop) in study.judged.items() if stop}

    def _curve(self, study: _Study, state: StudyState, uid: str, begin_us: int) -> list[Point]:
        """Return a trial's curve with all its reports so far."""
        curve = study.curves.setdefault(uid, _Curve())
        while new := self._measurements.newer(uid, state.tag, curve.read_to, _CHUNK):
            for each in new:
                seconds = max((each.report.reported_us - begin_us) / 1e6, 0.0)
                curve.kept.add(Point(step=each.report.step, value=each.report.value, seconds=seconds))
            curve.read_to = new[-1].id
            if len(new) < _CHUNK:
                break
        return curve.kept.points
