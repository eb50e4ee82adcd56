"""What a tuning job has found so far: its trials with their measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training_api.job.tuning.measurement import Report
from training_api.states import JobState
from training_service.model.records import TrialSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutput:
    """
    One trial.

    :param final: the measurement that counts, so far; ``None``: it has none.
    :param reports: its last measurements in order; empty where they were not asked for.
    """

    trial: TrialSummary
    final: Report | None = None
    reports: Sequence[Report] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOutput:
    """
    All trials of one tuning job, in the order of their numbers.

    Those that run or failed too; their states tell them apart.
    """

    metric_tag: str
    trials: Sequence[TrialOutput] = ()

    @property
    def completed_trials(self) -> int:
        """How many trials have succeeded."""
        return sum(each.trial.state is JobState.SUCCEEDED for each in self.trials)
