"""
The parameters of a study, and their rules. Pure.

Source of a rule, unless another is named: the discovery document's ``StudySpec.ParameterSpec``. Numbers that
are 0 are absent in canonical JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from training_api.dialects.vertex_v1.tuning.conditions import read_condition
from training_api.job.tuning.bounds import (
    MAX_DISCRETE_VALUES,
    MAX_INTEGER,
    MAX_PARAMETERS,
    PARAMETER_NAME,
    PARAMETER_NAME_RULE,
)
from training_api.job.tuning.search_terms import (
    Condition,
    ParameterKind,
    ScaleType,
    SearchAlgorithm,
    SearchParameter,
)
from training_api.job.violations import Violations

_STUDY = "studySpec."
PATH = f"{_STUDY}parameters"
#: The field with the parameters that depend on one, and the field of each of these with the parameter itself.
CONDITIONAL, _SPEC = "conditionalParameterSpecs", "parameterSpec"
#: The field that has a parameter's values, by its kind.
VALUE_SPECS: Mapping[ParameterKind, str] = {
    ParameterKind.DOUBLE: "doubleValueSpec",
    ParameterKind.INTEGER: "integerValueSpec",
    ParameterKind.CATEGORICAL: "categoricalValueSpec",
    ParameterKind.DISCRETE: "discreteValueSpec",
}
_SCALES = {
    "UNIT_LINEAR_SCALE": ScaleType.LINEAR,
    "UNIT_LOG_SCALE": ScaleType.LOG,
    "UNIT_REVERSE_LOG_SCALE": ScaleType.REVERSE_LOG,
}
_LOGARITHMIC = (ScaleType.LOG, ScaleType.REVERSE_LOG)
_APART = 1e-10


def read_parameters(
    rules: Violations, parameters: Sequence[Mapping[str, Any]], algorithm: SearchAlgorithm
) -> tuple[SearchParameter, ...]:
    """
    Return the parameters of a study in their order, each before those that depend on it.

    What breaks a rule is recorded in ``rules``. A default value is checked and has no effect: "Not supported
    by HyperparameterTuningJob".
    """
    if not parameters:
        rules.add(PATH, "is required: at least one parameter to search")
    placed = [each for path, root in _items(PATH, parameters) for each in _with_conditional(path, root)]
    if len(placed) > MAX_PARAMETERS:
        rules.add(PATH, f"must be at most {MAX_PARAMETERS} parameters; got {len(placed)}")
        return ()  # what made one too many is not to be told of each
    _check_names(rules, placed)
    return tuple(
        each for path, root in _items(PATH, parameters) for each in _read(rules, path, root, algorithm)
    )


def _items(path: str, items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((f"{path}[{place}]", each) for place, each in enumerate(items))


def _conditional(path: str, parameter: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each ConditionalParameterSpec of a parameter with its path."""
    return _items(f"{path}.{CONDITIONAL}", parameter.get(CONDITIONAL, []))


def _with_conditional(path: str, parameter: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a parameter, and all that depend on it, with their paths."""
    yield path, parameter
    for below, spec in _conditional(path, parameter):
        yield from _with_conditional(f"{below}.{_SPEC}", spec.get(_SPEC, {}))


def _read(
    rules: Violations,
    path: str,
    parameter: Mapping[str, Any],
    algorithm: SearchAlgorithm,
    condition: Condition | None = None,
) -> Iterator[SearchParameter]:
    """Yield a parameter, and then all that depend on it."""
    found = _parameter(rules, path, parameter, algorithm)
    if found is None:
        return  # without its values, nothing can be said of what depends on them
    yield replace(found, condition=condition)
    for below, spec in _conditional(path, parameter):
        on = read_condition(rules, below, spec, found)
        yield from _read(rules, f"{below}.{_SPEC}", spec.get(_SPEC, {}), algorithm, on)


def _check_names(rules: Violations, placed: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """
    Record names that are none, or that another parameter has.

    The API lets siblings with disjoint conditions share a name; here, a name is one parameter.
    """
    first: dict[str, str] = {}
    for place, parameter in placed:
        path, name = f"{place}.parameterId", parameter.get("parameterId", "")
        if not name:
            rules.add(path, "is required: the trainer's argument --NAME")
        elif not PARAMETER_NAME.fullmatch(name):
            rules.add(path, f"{PARAMETER_NAME_RULE}; got {name[:200]!r}")
        elif name in first:
            rules.add(path, f"must be unique, {first[name]} has it already; got {name!r}")
        else:
            first[name] = place.removeprefix(_STUDY)


def _parameter(
    rules: Violations, path: str, parameter: Mapping[str, Any], algorithm: SearchAlgorithm
) -> SearchParameter | None:
    kind = next((kind for kind, name in VALUE_SPECS.items() if name in parameter), None)
    if kind is None:
        rules.add(path, f"must have its values, in one of {', '.join(VALUE_SPECS.values())}")
        return None
    spec_path, spec = f"{path}.{VALUE_SPECS[kind]}", parameter[VALUE_SPECS[kind]]
    scale = _SCALES.get(parameter.get("scaleType", ""), ScaleType.NONE)
    if kind is ParameterKind.DOUBLE and algorithm is SearchAlgorithm.GRID:
        rules.add(
            spec_path,
            "must be integerValueSpec, categoricalValueSpec or discreteValueSpec with GRID_SEARCH; list the values "
            "in a discreteValueSpec",
        )
    if kind is ParameterKind.CATEGORICAL and scale is not ScaleType.NONE:
        rules.add(
            f"{path}.scaleType", f"must not be set with categoricalValueSpec; got {parameter['scaleType']}"
        )
    low = high = 0.0
    values: tuple[str, ...] | tuple[float, ...] = ()
    if kind is ParameterKind.CATEGORICAL:
        values = _categories(rules, spec_path, spec)
    elif kind is ParameterKind.DISCRETE:
        values = _points(rules, spec_path, spec, scale)
    else:
        low, high = _range(rules, spec_path, spec, kind, scale)
    return SearchParameter(
        name=parameter.get("parameterId", ""), kind=kind, low=low, high=high, scale=scale, values=values
    )


def _range(
    rules: Violations, path: str, spec: Mapping[str, Any], kind: ParameterKind, scale: ScaleType
) -> tuple[float, float]:
    """Return the bounds of a DOUBLE or INTEGER; equal ones fix the parameter."""
    if "minValue" not in spec and "maxValue" not in spec:
        rules.add(path, "must have minValue and maxValue, of which at most one is 0")
        return 0.0, 0.0
    low, high = float(spec.get("minValue", 0)), float(spec.get("maxValue", 0))
    for name, value in (("minValue", low), ("maxValue", high)):
        if not math.isfinite(value):
            rules.add(f"{path}.{name}", f"must be finite; got {value}")
        # The text, as a double rounds what is just beyond.
        elif kind is ParameterKind.INTEGER and abs(int(spec.get(name, 0))) > MAX_INTEGER:
            rules.add(f"{path}.{name}", f"must be from -2^53 to 2^53; got {spec[name]}")
    if scale in _LOGARITHMIC and low <= 0:
        rules.add(f"{path}.minValue", f"must be more than 0 with a logarithmic scaleType; got {low:.15g}")
    if high < low:
        rules.add(f"{path}.maxValue", f"must be at least minValue, {low:.15g}; got {high:.15g}")
    elif math.isfinite(low) and math.isfinite(high) and not math.isfinite(high - low):
        rules.add(f"{path}.maxValue", f"must be nearer to minValue, {low}: no double holds the width")
    default = float(spec.get("defaultValue", low))
    if not low <= default <= high and low <= high:
        rules.add(
            f"{path}.defaultValue", f"must be from {low:.15g} to {high:.15g}; got {spec['defaultValue']}"
        )
    return low, high


def _categories(rules: Violations, path: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    values: list[str] = spec.get("values", [])
    if not values:
        rules.add(f"{path}.values", "is required: at least one value")
    seen: set[str] = set()
    for place, value in enumerate(values):
        if value in seen:
            rules.add(f"{path}.values[{place}]", f"must be unique; got {value[:100]!r} again")
        seen.add(value)
    if values and spec.get("defaultValue", values[0]) not in seen:
        rules.add(f"{path}.defaultValue", f"must be one of values; got {spec['defaultValue'][:100]!r}")
    return tuple(values)


def _points(rules: Violations, path: str, spec: Mapping[str, Any], scale: ScaleType) -> tuple[float, ...]:
    path, values = f"{path}.values", [float(value) for value in spec.get("values", [])]
    endless = [place for place, value in enumerate(values) if not math.isfinite(value)]
    if not values:
        rules.add(path, "is required: at least one value")
    elif len(values) > MAX_DISCRETE_VALUES:
        rules.add(path, f"must be at most {MAX_DISCRETE_VALUES} values; got {len(values)}")
    elif endless:
        rules.add(f"{path}[{endless[0]}]", f"must be finite; got {values[endless[0]]}")
    elif scale in _LOGARITHMIC and min(values) <= 0:
        rules.add(path, f"must all be more than 0 with a logarithmic scaleType; got {min(values):.15g}")
    elif not math.isfinite(max(values) - min(values)):
        rules.add(path, "must lie nearer together: no double holds their width")
    else:
        for place, (before, value) in enumerate(pairwise(values), start=1):
            if value - before < _APART:
                rules.add(
                    f"{path}[{place}]",
                    f"must be more than the value before it, {before:.15g}, by at least {_APART:g}; got {value:.15g}",
                )
                break
    return tuple(values)
