"""What a trial is given: its hyperparameters as arguments, and its folder. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.job.tuning.search_terms import ParameterKind, SearchParameter
from training_api.job.tuning.study_spec import StudySpec


def trial_output_dir(output_dir: str, trial_id: int | str) -> str:
    """Return the folder of a trial below that of its tuning job. Pure."""
    return f"{output_dir.rstrip('/')}/{trial_id}"


def hyperparameter_args(hyperparameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``--name=value`` of each [unverified: the form]. Pure."""
    return tuple(f"--{name}={value}" for name, value in hyperparameters.items())


def sample_hyperparameters(study: StudySpec) -> dict[str, str]:
    """
    Return one assignment of the space, to try a trainer with. Pure.

    The least value of each parameter, or its first.
    """
    return {each.name: _first_value(each) for each in study.parameters}


def _first_value(parameter: SearchParameter) -> str:
    value = parameter.values[0] if parameter.values else parameter.low
    if isinstance(value, str):
        return value
    return repr(value) if parameter.kind is ParameterKind.DOUBLE else f"{value:.15g}"
