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

    :param parameters: in the request's order.
    :param max_failed_trials: so many failed trials fail the job; 0: the service decides.
    :param stopping: how trials are stopped early; the service has one rule, for every kind but NONE.
    :param selection: which measurement of a trial counts; the service takes the last.
    :param resume_job_id: the tuning job of the same project whose trials this one knows of; empty: none.
    """

    parameters: tuple[SearchParameter, ...]
    goal: Goal = Goal.MAXIMIZE
    metric_tag: str = DEFAULT_METRIC_TAG
    max_trials: int = 1
    max_parallel_trials: int = 1
    max_failed_trials: int = 0
    algorithm: SearchAlgorithm = SearchAlgorithm.BAYESIAN
    stopping: Stopping = Stopping.NONE
    selection: Selection = Selection.LAST
    resume_job_id: str = ""

    @property
    def stops_early(self) -> bool:
        """Whether trials without a chance are stopped."""
        return self.stopping is not Stopping.NONE
