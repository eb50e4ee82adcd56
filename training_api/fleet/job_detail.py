"""
What the ops API tells of one job beside its row, as pydantic models.

It is the same in every dialect. The answer as a whole is ``JobDetail`` in
``training_api/dialects/ml_v1/job_rows.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from training_api.job.results import TrialRow
from training_api.job.tuning.search_terms import Condition, Goal, ParameterKind, ScaleType, SearchParameter
from training_api.job.tuning.study_spec import StudySpec
from training_api.states import JobState
from training_api.wire import Timestamp, WireModel


class PoolView(WireModel):
    """
    Replicas of a job that are alike.

    :param name: ``master`` or ``workerpool0``, as the job's dialect calls them.
    :param accelerator: the type; empty: none, or that of the machine type.
    :param command: replaces the image's entry point; empty: the image's own.
    """

    name: str
    count: int
    machine_type: str
    accelerator: str = ""
    accelerator_count: int = 0
    image: str
    command: list[str] = []
    args: list[str] = []


class ConditionView(WireModel):
    """When a parameter is searched, as ``Condition`` has it."""

    parent: str
    values: list[str] | list[float]

    @classmethod
    def of(cls, condition: Condition) -> Self:
        """Return what is shown of a condition."""
        return cls(parent=condition.parent, values=list(condition.values))

    @property
    def condition(self) -> Condition:
        """What the mathematics of trials takes."""
        values = tuple(self.values)
        return Condition(parent=self.parent, values=values)  # type: ignore[arg-type]  # of one type


class ParameterView(WireModel):
    """A searched dimension, as ``SearchParameter`` has it."""

    name: str
    kind: ParameterKind
    low: float = 0.0
    high: float = 0.0
    scale: ScaleType = ScaleType.NONE
    values: list[str] | list[float] = []
    condition: ConditionView | None = None


class StudyView(WireModel):
    """What a tuning job searches for; ``max_trials`` bounds it."""

    metric_tag: str
    goal: Goal
    max_trials: int
    parameters: list[ParameterView] = []

    @classmethod
    def of(cls, study: StudySpec) -> Self:
        """Return what is shown of a study."""
        return cls(
            metric_tag=study.metric_tag,
            goal=study.goal,
            max_trials=study.max_trials,
            parameters=[
                ParameterView(
                    name=each.name,
                    kind=each.kind,
                    low=each.low,
                    high=each.high,
                    scale=each.scale,
                    values=list(each.values),
                    condition=ConditionView.of(each.condition) if each.condition else None,
                )
                for each in study.parameters
            ],
        )

    @property
    def spec(self) -> StudySpec:
        """What the mathematics of trials takes."""
        return StudySpec(
            metric_tag=self.metric_tag,
            goal=self.goal,
            max_trials=self.max_trials,
            parameters=tuple(
                SearchParameter(
                    name=each.name,
                    kind=each.kind,
                    low=each.low,
                    high=each.high,
                    scale=each.scale,
                    values=tuple(each.values),  # type: ignore[arg-type]  # texts only, or numbers only
                    condition=each.condition.condition if each.condition else None,
                )
                for each in self.parameters
            ),
        )


class TrialView(WireModel):
    """
    One trial of a tuning job.

    :param parameters: name to value as text, as the trainer got it.
    :param objective: its final measurement so far; ``None``: it has none, or no finite one.
    :param error: why it failed; empty: it did not.
    """

    trial_id: str
    state: JobState
    is_stopped_early: bool = False
    parameters: dict[str, str] = {}
    objective: float | None = None
    step: int | None = None
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    error: str = ""


class PipelineView(WireModel):
    """The pipeline that a job was made for. :param name: its resource name."""

    name: str
    display_name: str = ""


def trial_rows(
    trials: Iterable[TrialView], now: datetime, cost_per_second: float | None = None
) -> list[TrialRow]:
    """
    Return a row a trial, as the mathematics of trials takes them.

    Pure.

    :param cost_per_second: of all replicas of one trial together.
    """
    return [_row(each, now, cost_per_second) for each in trials]


def _row(trial: TrialView, now: datetime, cost_per_second: float | None) -> TrialRow:
    seconds = (
        max(((trial.end_time or now) - trial.start_time).total_seconds(), 0) if trial.start_time else None
    )
    return TrialRow(
        trial_id=trial.trial_id,
        state=trial.state,
        is_stopped_early=trial.is_stopped_early,
        objective=trial.objective,
        step=trial.step,
        seconds=seconds,
        ended_at=trial.end_time,
        hyperparameters=trial.parameters,
        cost=None if cost_per_second is None else (seconds or 0.0) * cost_per_second,
    )
