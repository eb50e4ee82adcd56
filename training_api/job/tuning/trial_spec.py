"""
The job of one trial: the tuning job with an assignment and its own job directory.

Sources: contract section 7 (arguments named by ``parameterName``; ``--job-dir`` scoped by trial).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from training_api.dialects.ml_v1.resources import ParameterSpec, ParameterType
from training_api.job.job_spec import JobSpec
from training_api.job.tuning.study_spec import StudySpec


def trial_spec(spec: JobSpec, trial_id: int, hyperparameters: Mapping[str, str]) -> JobSpec:
    """
    Return what trial ``trial_id`` of the tuning job ``spec`` runs.

    Pure. All replicas of the trial get the hyperparameters, after the user's arguments, so that where a
    parser lets the last one win they win [unverified: the order].

    :param hyperparameters: by name, as they are written on a command line.
    """
    training = spec.training_input
    own_dir: tuple[str, ...] = ()
    if training.job_dir:
        # --job-dir and its path are the last two arguments of every replica.
        own_dir = ("--job-dir", trial_job_dir(training.job_dir, trial_id))
        training = training.model_copy(update={"job_dir": own_dir[-1]})
    arguments = (*own_dir, *hyperparameter_args(hyperparameters))
    replicas = tuple(
        replace(replica, args=(*replica.args[: len(replica.args) - len(own_dir)], *arguments))
        for replica in spec.replicas
    )
    return replace(spec, replicas=replicas, training_input=training, study=None)


def trial_job_dir(job_dir: str, trial_id: int | str) -> str:
    """Return ``jobDir/trialId`` [unverified but consistent: contract section 7]. Pure."""
    return f"{job_dir.rstrip('/')}/{trial_id}"


def hyperparameter_args(hyperparameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``--name=value`` of each [unverified: the form]. Pure."""
    return tuple(f"--{name}={value}" for name, value in hyperparameters.items())


def trial_environment(study: StudySpec, trial_id: str) -> dict[str, str]:
    """Return what tells a trainer that it is a trial [code: public trainers]. Pure."""
    return {"CLOUD_ML_TRIAL_ID": trial_id, "CLOUD_ML_HP_METRIC_TAG": study.metric_tag}


def sample_hyperparameters(study: StudySpec) -> dict[str, str]:
    """
    Return one assignment of the space, to try a trainer with. Pure.

    The least value of each parameter, or its first.
    """
    return {each.parameter_name or "": _first_value(each) for each in study.search.params or ()}


def _first_value(parameter: ParameterSpec) -> str:
    if parameter.type is ParameterType.CATEGORICAL:
        return (parameter.categorical_values or [""])[0]
    if parameter.type is ParameterType.DISCRETE:
        value = (parameter.discrete_values or [0.0])[0]
    else:
        value = parameter.min_value or 0.0
    return repr(value) if parameter.type is ParameterType.DOUBLE else f"{value:.15g}"
