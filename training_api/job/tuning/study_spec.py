"""What a tuning job searches for, with the defaults of its dialect filled in. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from training_api.job.tuning.search_terms import Goal, SearchAlgorithm, SearchParameter, Selection, Stopping

#: What cloudml-hypertune calls a metric that the trainer gives no name [code: hypertune.py].
DEFAULT_METRIC_TAG = "training/hptuning/metric"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """
    One study: its search space and its limits.

    :param parameters: in the request's order; one with a condition stands after its parent.
    :param max_failed_trials: so many failed trials fail the job; 0: the service decides.
    :param min_trials: before so many trials have succeeded, no lack of progress ends the study.
    :param max_trials_without_progress: so many trials in a row without a better value end the study; 0: none.
    :param stopping: how trials are stopped early.
    :param stops_by_seconds: curves are compared by the time since their trial's start, and not by steps.
    :param selection: which measurement of a trial counts.
    :param resume_job_id: the tuning job of the same project whose trials this one knows of; empty: none.
    """

    parameters: tuple[SearchParameter, ...]
    goal: Goal = Goal.MAXIMIZE
    metric_tag: str = DEFAULT_METRIC_TAG
    max_trials: int = 1
    max_parallel_trials: int = 1
    max_failed_trials: int = 0
    min_trials: int = 0
    max_trials_without_progress: int = 0
    algorithm: SearchAlgorithm = SearchAlgorithm.BAYESIAN
    stopping: Stopping = Stopping.NONE
    stops_by_seconds: bool = False
    selection: Selection = Selection.LAST
    resume_job_id: str = ""

    @property
    def stops_early(self) -> bool:
        """Whether trials without a chance are stopped."""
        return self.stopping is not Stopping.NONE
