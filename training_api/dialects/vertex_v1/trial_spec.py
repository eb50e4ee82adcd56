"""The job of one trial: the tuning job's, with an assignment and a folder of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from training_api.dialects.vertex_v1.scheduling import read_scheduling
from training_api.dialects.vertex_v1.tuning.reader import trial_request
from training_api.job.job_spec import JobSpec
from training_api.job.tuning.trial_spec import hyperparameter_args, trial_output_dir
from training_api.job.violations import Violations

#: The fields of a pool that have arguments.
_TASKS = ("containerSpec", "pythonPackageSpec")


def trial_of(
    study: JobSpec, request: Mapping[str, Any], number: int, hyperparameters: Mapping[str, str]
) -> tuple[JobSpec, dict[str, Any]]:
    """
    Return what a trial runs, and the CustomJob that its containers see.

    discovery: "the baseOutputDirectory of each child CustomJob backing a Trial is set to a subdirectory of
    name id under its parent's".

    :param request: that of the HyperparameterTuningJob.
    :param hyperparameters: by name, as they are written on a command line.
    """
    folder = trial_output_dir(study.output_dir, number) if study.output_dir else ""
    arguments = hyperparameter_args(hyperparameters)
    replicas = tuple(replace(each, args=(*each.args, *arguments)) for each in study.replicas)
    made = trial_request(request)
    job_spec = dict(made["jobSpec"])
    # The limits were checked when the tuning job was read.
    max_running = read_scheduling(Violations(), job_spec.get("scheduling", {})).max_running
    spec = replace(study, replicas=replicas, output_dir=folder, max_running=max_running, study=None)
    job_spec["workerPoolSpecs"] = [_with_args(each, arguments) for each in job_spec["workerPoolSpecs"]]
    if folder:
        job_spec["baseOutputDirectory"] = {"outputUriPrefix": folder}
    return spec, {**made, "jobSpec": job_spec}


def _with_args(pool: Mapping[str, Any], arguments: Iterable[str]) -> dict[str, Any]:
    return {
        name: {**value, "args": [*value.get("args", ()), *arguments]} if name in _TASKS else value
        for name, value in pool.items()
    }
