"""The next steps of a tuning job, and what its study changes about those of a trial. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from training_api.causes import Cause
from training_api.job.dialect import Dialect
from training_api.states import JobState
from training_service.model.limits import limit_reached
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.model.verdict import Over
from training_service.model.work import Action, AddTrial, Conclude, PullImages, StopEarly, Transition
from training_service.studies.study import (
    Reported,
    StudyView,
    free_slots,
    judge_study,
    judge_trial,
    report_stops,
)


def study_steps(
    job: JobRecord, view: StudyView, active: Sequence[JobRecord], now: datetime, dialect: Dialect
) -> list[Action]:
    """
    Return what the tuning job does next.

    :param active: its trials that have not ended.
    :param dialect: the job's.
    """
    if job.state is JobState.CANCELLING:
        return _wind_down(job, active, now, JobState.CANCELLED)
    if job.outcome:
        return _wind_down(job, active, now, job.outcome)
    if expired := limit_reached(job, now, dialect):
        return [Transition(job=job, to=JobState.CANCELLING, at=now, reason=expired)]
    if job.state is JobState.QUEUED:
        return []
    if job.state is JobState.PREPARING:
        if images := job.missing_images:
            return [PullImages(job=job, images=images)]
        # A trial that has ended already ran, or never will.
        started = [trial.running_at for trial in active if trial.running_at]
        started += [trial.started_at for trial in view.ended if trial.started_at]
        if started or view.ended or not view.trial_count:
            return [Transition(job=job, to=JobState.RUNNING, at=min(started, default=now))]
    over = judge_study(view, len(active), dialect)
    if over:
        return [
            Conclude(
                job=job,
                outcome=over.outcome,
                reason=over.reason,
                summary=report_stops(view),
            )
        ]
    return [AddTrial(job=job)] if free_slots(view, len(active)) else []


def trial_steps(
    trial: JobRecord, view: StudyView | None, steps: Sequence[Action], now: datetime, dialect: Dialect
) -> list[Action]:
    """
    Return the next steps of a trial.

    :param view: ``None``: its tuning job has ended without it, as it could not be read.
    :param steps: what they would be if it were a job of its own.
    :param dialect: the trial's.
    """
    if view is None:
        return list(steps) if trial.is_ending else [_end_with_study(trial, now)]
    stop = view.stops.get(trial.uid)
    if stop and not steps and trial.state is JobState.RUNNING:
        return [StopEarly(job=trial, reason=stop.reason, is_spared=stop.is_spared)]
    return [_judged(step, view, dialect) for step in steps]


def _judged(step: Action, view: StudyView, dialect: Dialect) -> Action:
    if not isinstance(step, Conclude):
        return step
    over = Over(outcome=step.outcome, reason=step.reason)
    judged = judge_trial(view.spec, over, view.reported.get(step.job.uid, Reported()), dialect)
    return Conclude(job=step.job, outcome=judged.outcome, reason=judged.reason)


def _wind_down(job: JobRecord, active: Sequence[JobRecord], now: datetime, to: JobState) -> list[Action]:
    """Cancel the trials that still run; the tuning job ends when they have."""
    running = [trial for trial in active if not trial.is_ending]
    if running:
        return [_end_with_study(trial, now) for trial in running]
    if active:
        return []
    return [Transition(job=job, to=to, at=now, reason=job.reason)]


def _end_with_study(trial: JobRecord, now: datetime) -> Transition:
    why = Reason(cause=Cause.STUDY_ENDED, message=f"the job {trial.spec.job_id} is ending")
    return Transition(job=trial, to=JobState.CANCELLING, at=now, reason=why)
