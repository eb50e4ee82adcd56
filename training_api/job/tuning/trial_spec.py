"""What a trial is given: its hyperparameters as arguments, and its folder. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.job.tuning.search_terms import ParameterKind, SearchParameter, Value
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
    chosen: dict[str, Value] = {}
    for each in study.parameters:
        if each.is_active(chosen):
            chosen[each.name] = each.values[0] if each.values else each.low
    return {each.name: _text(each, chosen[each.name]) for each in study.parameters if each.name in chosen}


def _text(parameter: SearchParameter, value: Value) -> str:
    if isinstance(value, str):
        return value
    return repr(value) if parameter.kind is ParameterKind.DOUBLE else f"{value:.15g}"
