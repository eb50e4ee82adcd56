"""
How a tuning job goes on: more trials, an end, or nothing yet. Pure.

A tuning job runs nothing itself. It stands in the queue until there is room for one trial, has its images pulled, and
from then on its trials, each a job record of its own, take their turns where the job stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from training_api.causes import Cause
from training_api.job.tuning.study_spec import StudySpec
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.model.verdict import Over
from training_service.search.early_stopping import (
    EarlyStoppingReport,
    Ending,
    TrialOutcome,
    early_stopping_report,
)

#: Where maxFailedTrials is 0, "the service decides when a hyperparameter job should fail" (discovery); this is our
#: decision [unverified]: when so many trials have failed before any has succeeded, or at the end, when none has.
FAILURES_WITHOUT_SUCCESS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTrial:
    """
    What is left of a trial for the study.

    :param value: its final metric; ``None`` for one that failed.
    :param reason: why it failed or was cancelled.
    :param started_at: when it began to run; ``None``: it never did.
    :param seconds: how long it ran.
    :param ending: whether it was stopped early, was spared, or neither.
    """

    number: int
    hyperparameters: Mapping[str, str]
    state: JobState
    value: float | None = None
    reason: Reason | None = None
    started_at: datetime | None = None
    seconds: float = 0.0
    ending: Ending = Ending.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """
    What a trial has reported so far.

    :param value: the newest value of the study's metric; ``None``: none yet.
    :param tags: all tags that it reported; known only where ``value`` is ``None``.
    """

    value: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStop:
    """Why a running trial should be stopped; ``is_spared``: it was drawn to run on, so that stopping can be judged."""

    reason: str
    is_spared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyView:
    """
    What is known of a tuning job's trials.

    :param spec: what it searches for.
    :param trial_count: how many trials there are to be in all; fewer than asked for where a grid has fewer points.
    :param ended: in the order of their numbers.
    :param reported: by uid, of the trials that have not ended.
    :param stops: by uid, of running trials.
    """

    spec: StudySpec
    trial_count: int
    ended: tuple[EndedTrial, ...] = ()
    reported: Mapping[str, Reported] = field(default_factory=dict)
    stops: Mapping[str, EarlyStop] = field(default_factory=dict)


def free_slots(view: StudyView, active: int) -> int:
    """Return how many trials may be added to the ``active`` ones."""
    return max(min(view.spec.max_parallel_trials, view.trial_count - len(view.ended)) - active, 0)


def judge_study(view: StudyView, active: int) -> Over | None:
    """
    Return how the tuning job ends; ``None``: it goes on.

    It fails with ``maxFailedTrials``, and succeeds when all trials have ended and one of them has succeeded.
    """
    failed = [trial for trial in view.ended if trial.state is not JobState.SUCCEEDED]
    succeeded = len(view.ended) - len(failed)
    limit = view.spec.max_failed_trials
    if limit and len(failed) >= limit:
        return Over(outcome=JobState.FAILED, reason=_failure(failed, f"maxFailedTrials is {limit}"))
    is_done = not active and len(view.ended) >= view.trial_count
    if not succeeded and failed and (is_done or (not limit and len(failed) >= FAILURES_WITHOUT_SUCCESS)):
        return Over(outcome=JobState.FAILED, reason=_failure(failed, "none has succeeded"))
    return Over(outcome=JobState.SUCCEEDED) if is_done else None


def report_stops(view: StudyView) -> EarlyStoppingReport | None:
    """Return what early stopping did in a study; ``None`` where it was not asked for, or no trial has succeeded."""
    outcomes = [
        TrialOutcome(ending=trial.ending, seconds=trial.seconds, final_value=trial.value)
        for trial in view.ended
        if trial.state is JobState.SUCCEEDED
    ]
    return early_stopping_report(outcomes, view.spec.goal) if view.spec.stops_early and outcomes else None


def judge_trial(study: StudySpec, over: Over, reported: Reported) -> Over:
    """Return how a trial ends whose replicas end as ``over`` says: without its metric it has failed, though they have not."""
    if over.outcome is not JobState.SUCCEEDED:
        return over
    if reported.value is None:
        tags = ", ".join(map(repr, reported.tags))
        said = f"it reported {tags}" if tags else "it reported nothing"
        message = (
            f"The trial ended without a value of the metric {study.metric_tag!r}: {said}. "
            "Report it with cloudml-hypertune under this tag, or name another in hyperparameterMetricTag."
        )
        return Over(outcome=JobState.FAILED, reason=Reason(cause=Cause.METRIC, message=message))
    if not math.isfinite(reported.value):
        message = f"The last value of the metric {study.metric_tag!r} is {reported.value}; it must be a finite number."
        return Over(outcome=JobState.FAILED, reason=Reason(cause=Cause.METRIC, message=message))
    return over


def _failure(failed: Sequence[EndedTrial], why: str) -> Reason:
    """Return why a tuning job fails: for what its last trial failed, or was cancelled."""
    last = max(failed, key=lambda trial: trial.number)
    reason = last.reason or Reason(cause=Cause.UNKNOWN, message="")
    names = "1 trial has" if len(failed) == 1 else f"{len(failed)} trials have"
    message = f"{names} failed, and {why}. Trial {last.number}: {reason.message}"
    return replace(reason, message=message, failed_trials=len(failed))
