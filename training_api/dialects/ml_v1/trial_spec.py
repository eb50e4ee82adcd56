"""
The job of one trial: the tuning job with an assignment and its own job directory.

Sources: contract section 7 (arguments named by ``parameterName``; ``--job-dir`` scoped by trial).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from training_api.dialects.ml_v1.packages import job_dir_args
from training_api.job.job_spec import JobSpec
from training_api.job.tuning.trial_spec import hyperparameter_args, trial_output_dir


def trial_of(
    study: JobSpec, request: Mapping[str, Any], trial_id: int, hyperparameters: Mapping[str, str]
) -> tuple[JobSpec, dict[str, Any]]:
    """
    Return what a trial of ``study`` runs, and the request that its containers see.

    Pure.

    :param request: the tuning job's ``trainingInput``.
    :param hyperparameters: by name, as they are written on a command line.
    """
    spec = trial_spec(study, trial_id, hyperparameters)
    return spec, {**request, **({"jobDir": spec.output_dir} if spec.output_dir else {})}


def trial_spec(spec: JobSpec, trial_id: int, hyperparameters: Mapping[str, str]) -> JobSpec:
    """
    Return what trial ``trial_id`` of the tuning job ``spec`` runs.

    Pure. All replicas of the trial get the hyperparameters, after the user's arguments, so that where a
    parser lets the last one win they win [unverified: the order].
    """
    # ``jobDir/trialId`` [unverified but consistent: contract section 7].
    folder = trial_output_dir(spec.output_dir, trial_id) if spec.output_dir else ""
    own_dir = job_dir_args(folder)
    arguments = (*own_dir, *hyperparameter_args(hyperparameters))
    replicas = tuple(
        # --job-dir and its path are the last two arguments of every replica.
        replace(replica, args=(*replica.args[: len(replica.args) - len(own_dir)], *arguments))
        for replica in spec.replicas
    )
    return replace(spec, replicas=replicas, output_dir=folder, study=None)


def trial_environment(metric_tag: str, trial_id: str) -> dict[str, str]:
    """Return what tells a trainer that it is a trial [code: public trainers]. Pure."""
    return {"CLOUD_ML_TRIAL_ID": trial_id, "CLOUD_ML_HP_METRIC_TAG": metric_tag}
