"""The job of one trial: the tuning job's, with an assignment and a folder of its own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from training_api.job.job_spec import JobSpec
from training_api.job.tuning.trial_spec import hyperparameter_args, trial_output_dir


def trial_of(
    study: JobSpec, request: Mapping[str, Any], number: int, hyperparameters: Mapping[str, str]
) -> tuple[JobSpec, dict[str, Any]]:
    """
    Return what a trial runs, and the request that its containers see.

    discovery: "the baseOutputDirectory of each child CustomJob backing a Trial is set to a subdirectory of
    name id under its parent's".

    :param hyperparameters: by name, as they are written on a command line.
    """
    folder = trial_output_dir(study.output_dir, number) if study.output_dir else ""
    arguments = hyperparameter_args(hyperparameters)
    replicas = tuple(replace(each, args=(*each.args, *arguments)) for each in study.replicas)
    return replace(study, replicas=replicas, output_dir=folder, study=None), dict(request)
