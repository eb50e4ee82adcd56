"""
How a tuning job continues: more trials, an end, or nothing yet. Pure.

A tuning job runs nothing itself. It waits in the queue until one trial fits, and its images are pulled. From
then on its trials, each with its own job record, take their turns at the job's place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from training_api.causes import Cause
from training_api.job.dialect import Dialect
from training_api.job.tuning.search_terms import Goal, Selection
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

#: With a maximum of 0, "the service decides when a hyperparameter job should fail" (discovery). Our
#: decision [unverified]: after this many failed trials without a success, or at the end if no trial has
#: succeeded.
FAILURES_WITHOUT_SUCCESS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTrial:
    """
    What the study keeps of a trial.

    :param value: its final metric; ``None``: it failed.
    :param reason: why it failed or was cancelled.
    :param started_at: when it started to run; ``None``: it never did.
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
    :param tags: all tags that it reported; filled only if ``value`` is ``None``.
    """

    value: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStop:
    """
    Why a running trial should be stopped.

    :param is_spared: it was chosen to run on, as a control for early stopping.
    """

    reason: str
    is_spared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyView:
    """
    What is known of a tuning job's trials.

    :param spec: what it searches for.
    :param trial_count: how many trials there will be in all; fewer than requested if a grid has fewer points.
    :param ended: in the order of their numbers.
    :param reported: by uid, of the trials that have not ended.
    :param stops: by uid, of running trials.
    """

    spec: StudySpec
    trial_count: int
    ended: tuple[EndedTrial, ...] = ()
    reported: Mapping[str, Reported] = field(default_factory=dict)
    stops: Mapping[str, EarlyStop] = field(default_factory=dict)


def has_converged(view: StudyView) -> bool:
    """
    Tell whether the study's last trials in a row were no better than those before.

    As many as it has as its limit. Trials that did not succeed do not count.
    """
    limit = view.spec.max_trials_without_progress
    sign = -1.0 if view.spec.goal is Goal.MINIMIZE else 1.0
    found = [trial.value for trial in view.ended if trial.value is not None]
    values = [sign * value for value in found if math.isfinite(value)]
    if not limit or len(values) < view.spec.min_trials:
        return False
    return len(values) > limit and max(values[-limit:]) <= max(values[:-limit])


def free_slots(view: StudyView, active: int) -> int:
    """Return how many trials may be added to the ``active`` ones."""
    if has_converged(view):
        return 0
    return max(min(view.spec.max_parallel_trials, view.trial_count - len(view.ended)) - active, 0)


def judge_study(view: StudyView, active: int, dialect: Dialect) -> Over | None:
    """
    Return how the tuning job ends; ``None``: it continues.

    It fails with too many failed trials, and succeeds when all trials have ended and one of them has
    succeeded, or none will get better.

    :param dialect: whose words a reason is in.
    """
    failed = [trial for trial in view.ended if trial.state is not JobState.SUCCEEDED]
    succeeded = len(view.ended) - len(failed)
    limit = view.spec.max_failed_trials
    if limit and len(failed) >= limit:
        return Over(
            outcome=JobState.FAILED,
            reason=_failure(failed, f"{dialect.word('study.max_failed_trials')} is {limit}"),
        )
    is_done = not active and (len(view.ended) >= view.trial_count or has_converged(view))
    if not succeeded and failed and (is_done or (not limit and len(failed) >= FAILURES_WITHOUT_SUCCESS)):
        return Over(outcome=JobState.FAILED, reason=_failure(failed, "none has succeeded"))
    return Over(outcome=JobState.SUCCEEDED) if is_done else None


def report_stops(view: StudyView) -> EarlyStoppingReport | None:
    """Return what early stopping did; ``None``: it is off, or no trial has succeeded."""
    outcomes = [
        TrialOutcome(ending=trial.ending, seconds=trial.seconds, final_value=trial.value)
        for trial in view.ended
        if trial.state is JobState.SUCCEEDED
    ]
    return early_stopping_report(outcomes, view.spec.goal) if view.spec.stops_early and outcomes else None


def judge_trial(study: StudySpec, over: Over, reported: Reported, dialect: Dialect) -> Over:
    """Return how a trial ends, given its replicas' end: without its metric it has failed."""
    if over.outcome is not JobState.SUCCEEDED:
        return over
    if reported.value is None:
        tags = ", ".join(map(repr, reported.tags))
        said = f"it reported {tags}" if tags else "it reported nothing"
        message = (
            f"The trial ended without a value of the metric {study.metric_tag!r}: {said}. "
            "Report it with cloudml-hypertune under this tag, or name another in "
            f"{dialect.word('study.metric_tag')}."
        )
        return Over(outcome=JobState.FAILED, reason=Reason(cause=Cause.METRIC, message=message))
    if not math.isfinite(reported.value):
        which = "The last" if study.selection is Selection.LAST else "No value is finite, and the last"
        message = f"{which} value of the metric {study.metric_tag!r} is {reported.value}; it must be a finite number."
        return Over(outcome=JobState.FAILED, reason=Reason(cause=Cause.METRIC, message=message))
    return over


def _failure(failed: Sequence[EndedTrial], why: str) -> Reason:
    """Return why a tuning job fails: the reason of its last failed or cancelled trial."""
    last = max(failed, key=lambda trial: trial.number)
    reason = last.reason or Reason(cause=Cause.UNKNOWN, message="")
    names = "1 trial has" if len(failed) == 1 else f"{len(failed)} trials have"
    message = f"{names} failed, and {why}. Trial {last.number}: {reason.message}"
    return replace(reason, message=message, failed_trials=len(failed))
