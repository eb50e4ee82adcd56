"""
Reads each tuning job's trials from the store, as the search and the loop need them.

The cache holds nothing that is not stored: an ended trial never changes, so it is read once. After a kill the
next service reads it again.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from training_api.errors import JobNotFound
from training_api.job.job_spec import JobSpec
from training_api.job.tuning.search_terms import SearchAlgorithm
from training_api.job.tuning.study_spec import StudySpec
from training_api.states import JobState
from training_service.model.records import JobRecord, Trial
from training_service.search.early_stopping import Ending
from training_service.search.grid import Grid
from training_service.search.search_space import SearchSpace
from training_service.store.database import to_us
from training_service.store.jobs.job_store import JobStore
from training_service.store.measurement_store import Measurement, MeasurementStore
from training_service.store.trial_store import TrialStore
from training_service.studies.finals import FinalMeasurements
from training_service.studies.stop_judge import RunningTrial, StopJudge, StudyState
from training_service.studies.study import EarlyStop, EndedTrial, Reported, StudyView


@dataclass(slots=True)
class _Known:
    """One study: its ended trials by sequence, and when those whose curves count began."""

    prior: tuple[EndedTrial, ...]
    #: Of the trials that have not ended.
    finals: FinalMeasurements
    ended: dict[int, EndedTrial] = field(default_factory=dict)
    completed: dict[int, tuple[str, int]] = field(default_factory=dict)


class Studies:
    """
    Reads tuning jobs; safe for threads.

    :param judge: decides which running trials should be stopped early.
    """

    def __init__(
        self, store: JobStore, trials: TrialStore, measurements: MeasurementStore, judge: StopJudge
    ) -> None:
        self._store = store
        self._trials = trials
        self._measurements = measurements
        self._judge = judge
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def look(self, jobs: Iterable[JobRecord]) -> dict[str, StudyView]:
        """
        Return the views of the tuning jobs among ``jobs``, by uid.

        :param jobs: all jobs and trials that have not ended.
        """
        active = list(jobs)
        trials: dict[str, list[JobRecord]] = defaultdict(list)
        for each in active:
            if each.trial:
                trials[each.trial.study_uid].append(each)
        views = {
            job.uid: self._view(job, job.spec.study, trials[job.uid]) for job in active if job.spec.study
        }
        self._judge.keep(views.keys())
        with self._lock:
            self._known = {uid: known for uid, known in self._known.items() if uid in views}
        return views

    def ended(self, job: JobRecord) -> tuple[EndedTrial, ...]:
        """Return the trials that have ended, in the order of their numbers."""
        return _in_order(self._refresh(job))

    def prior(self, job: JobRecord) -> tuple[EndedTrial, ...]:
        """Return the trials of the studies that this one resumes, the oldest first."""
        return self._refresh(job).prior

    def _view(self, job: JobRecord, study: StudySpec, trials: Sequence[JobRecord]) -> StudyView:
        known = self._refresh(job)
        uids = [trial.uid for trial in trials]
        latest = self._measurements.latest(uids, study.metric_tag)
        finals = known.finals.of(study, latest)
        reported = {uid: Reported(value=one.report.value) for uid, one in finals.items()}
        for trial in trials:
            if trial.uid not in reported and trial.state is JobState.RUNNING:
                reported[trial.uid] = Reported(tags=self._measurements.tags(trial.uid))
        return StudyView(
            spec=study,
            trial_count=trial_count(study, known.prior),
            ended=_in_order(known),
            reported=reported,
            stops=self._stops(job, study, trials, known, latest) if study.stops_early else {},
        )

    def _stops(
        self,
        job: JobRecord,
        study: StudySpec,
        trials: Sequence[JobRecord],
        known: _Known,
        latest: Mapping[str, Measurement],
    ) -> Mapping[str, EarlyStop]:
        running = {
            each.uid: RunningTrial(
                number=each.trial.number, begin_us=_begin_us(each), newest_id=latest[each.uid].id
            )
            for each in trials
            if each.uid in latest
            and each.state is JobState.RUNNING
            and not each.is_ending
            and each.trial
            and not each.trial.spared
        }
        state = StudyState(
            study_uid=job.uid,
            tag=study.metric_tag,
            goal=study.goal,
            seed=seed_of(job.spec),
            active=frozenset(trial.uid for trial in trials),
            running=running,
            completed=dict(known.completed[sequence] for sequence in sorted(known.completed)),
            stopping=study.stopping,
            by_seconds=study.stops_by_seconds,
        )
        return self._judge.stops(state)

    def _refresh(self, job: JobRecord) -> _Known:
        with self._lock:
            known = self._known.get(job.uid)
            if known is None:
                finals = FinalMeasurements(self._measurements)
                known = self._known[job.uid] = _Known(prior=self._read_prior(job), finals=finals)
            if self._trials.count_ended(job.uid) != len(known.ended):
                self._read_ended(job, known)
            return known

    def _read_ended(self, job: JobRecord, known: _Known) -> None:
        new = self._trials.ended(job.uid, known.ended.keys())
        finals = self._finals(job, new)
        for trial in new:
            known.ended[trial.sequence] = _ended_trial(trial, finals.get(trial.uid))
            if trial.state is JobState.SUCCEEDED and trial.trial and not trial.trial.stopped:
                known.completed[trial.sequence] = trial.uid, _begin_us(trial)

    def _read_prior(self, job: JobRecord) -> tuple[EndedTrial, ...]:
        study = job.spec.study
        if study is None or not study.resume_job_id:
            return ()
        try:
            before = self._store.get(job.spec.project, study.resume_job_id)
        except JobNotFound:
            # It ended long ago and was removed; this study continues without it.
            return ()
        trials = self._trials.ended(before.uid, ())
        finals = self._finals(job, trials)
        own = tuple(_ended_trial(trial, finals.get(trial.uid)) for trial in trials)
        return self._read_prior(before) + own

    def _finals(self, job: JobRecord, trials: Sequence[JobRecord]) -> dict[str, Measurement]:
        """Return what counts of ``trials``, by uid, in the study of ``job``."""
        study = job.spec.study
        if study is None:
            return {}
        latest = self._measurements.latest([trial.uid for trial in trials], study.metric_tag)
        return FinalMeasurements(self._measurements).of(study, latest)


def _in_order(known: _Known) -> tuple[EndedTrial, ...]:
    return tuple(sorted(known.ended.values(), key=lambda trial: trial.number))


def trial_count(study: StudySpec, prior: Sequence[EndedTrial]) -> int:
    """Return how many trials a study can have: ``maxTrials``, or fewer if its grid ends. Pure."""
    if study.algorithm is not SearchAlgorithm.GRID:
        return study.max_trials
    space = SearchSpace.of(study.parameters)
    if not space.is_countable:
        return study.max_trials
    known = {tuple(sorted(trial.hyperparameters.items())) for trial in prior if is_within(space, trial)}
    return min(study.max_trials, Grid(space).size - len(known))


def is_within(space: SearchSpace, trial: EndedTrial) -> bool:
    """Whether a trial, perhaps of an earlier study, lies in ``space``. Pure."""
    try:
        return space.contains(space.parse(dict(trial.hyperparameters)))
    except (KeyError, ValueError):
        return False


def seed_of(spec: JobSpec) -> int:
    """Return the seed of a study, which depends on its project and job id only. Pure."""
    name = f"{spec.project}/{spec.job_id}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def _begin_us(trial: JobRecord) -> int:
    return to_us(trial.running_at or trial.created_at)


def _ending(trial: Trial) -> Ending:
    if trial.stopped:
        return Ending.STOPPED
    return Ending.SHADOW if trial.spared else Ending.COMPLETED


def _ended_trial(trial: JobRecord, final: Measurement | None) -> EndedTrial:
    if trial.trial is None:
        raise ValueError(f"job {trial.spec.job_id!r} is no trial")
    return EndedTrial(
        number=trial.trial.number,
        hyperparameters=trial.trial.hyperparameters,
        state=trial.state,
        value=final.report.value if final and trial.state is JobState.SUCCEEDED else None,
        reason=trial.reason,
        started_at=trial.running_at,
        seconds=(trial.ended_at - trial.running_at).total_seconds()
        if trial.ended_at and trial.running_at
        else 0.0,
        ending=_ending(trial.trial),
    )
