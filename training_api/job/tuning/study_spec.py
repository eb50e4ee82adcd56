"""
What a tuning job searches for, with the API's defaults filled in.

Source of the defaults: discovery, HyperparameterSpec.
"""

from __future__ import annotations

from dataclasses import dataclass

from training_api.dialects.ml_v1.resources import Goal, HyperparameterSpec, SearchAlgorithm

#: discovery: hyperparameterMetricTag 'By default, "training/hptuning/metric" will be used'.
DEFAULT_METRIC_TAG = "training/hptuning/metric"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """
    One study: its search space and its limits.

    :param search: the request's own words; the parameters are read from there.
    :param goal: MAXIMIZE or MINIMIZE.
    :param max_failed_trials: so many failed trials fail the job; 0: the service decides.
    :param resume_job_id: the tuning job of the same project whose trials this one knows of; empty: none.
    """

    search: HyperparameterSpec
    goal: Goal = Goal.MAXIMIZE
    metric_tag: str = DEFAULT_METRIC_TAG
    max_trials: int = 1
    max_parallel_trials: int = 1
    max_failed_trials: int = 0
    algorithm: SearchAlgorithm = SearchAlgorithm.ALGORITHM_UNSPECIFIED
    stops_early: bool = False
    resume_job_id: str = ""

    @classmethod
    def from_wire(cls, search: HyperparameterSpec) -> StudySpec:
        """
        Return the study of a request whose rules were checked. Pure.

        See ``hyperparameter_rules.py``.
        """
        return cls(
            search=search,
            goal=Goal.MINIMIZE if search.goal is Goal.MINIMIZE else Goal.MAXIMIZE,
            metric_tag=search.hyperparameter_metric_tag or DEFAULT_METRIC_TAG,
            max_trials=search.max_trials or 1,
            max_parallel_trials=search.max_parallel_trials or 1,
            max_failed_trials=search.max_failed_trials or 0,
            algorithm=search.algorithm or SearchAlgorithm.ALGORITHM_UNSPECIFIED,
            stops_early=bool(search.enable_trial_early_stopping),
            resume_job_id=search.resume_previous_job_id or "",
        )
