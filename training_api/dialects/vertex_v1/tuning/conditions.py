"""
When a conditional parameter is searched. Pure.

Source: the discovery document's ``StudySpec.ParameterSpec.ConditionalParameterSpec``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training_api.job.tuning.search_terms import Condition, ParameterKind, SearchParameter, Value
from training_api.job.violations import Violations

#: The field that has a condition's values, by the kind of the parent; a DOUBLE has none.
PARENT_VALUES: Mapping[ParameterKind, str] = {
    ParameterKind.INTEGER: "parentIntValues",
    ParameterKind.CATEGORICAL: "parentCategoricalValues",
    ParameterKind.DISCRETE: "parentDiscreteValues",
}
#: discovery: DiscreteValueCondition.values, "The Epsilon of the value matching is 1e-10".
_EPSILON = 1e-10


def read_condition(
    rules: Violations, path: str, spec: Mapping[str, Any], parent: SearchParameter
) -> Condition | None:
    """
    Return when the parameter of a ConditionalParameterSpec is searched.

    What breaks a rule is recorded in ``rules``, and the condition is then of no use.
    """
    wanted = PARENT_VALUES.get(parent.kind)
    if wanted is None:
        rules.add(
            path,
            f"must not depend on {parent.name!r}, a doubleValueSpec; list the values of {parent.name!r} in a "
            "discreteValueSpec",
        )
        return None
    given = next((name for name in PARENT_VALUES.values() if name in spec), None)
    if given != wanted:
        got = f"; got {given}" if given else ""
        rules.add(
            f"{path}.{given or wanted}", f"must be {wanted}, the kind of values of {parent.name!r}{got}"
        )
        return None
    asked = spec[wanted].get("values", [])
    if not asked:
        rules.add(f"{path}.{wanted}.values", f"is required: at least one value of {parent.name!r}")
    find = _finder(parent)
    found: dict[Any, None] = {}  # a value that is given twice counts once
    for place, value in enumerate(asked):
        match = find(value)
        if match is None:
            rules.add(
                f"{path}.{wanted}.values[{place}]",
                f"must be one of the values of {parent.name!r}; got {str(value)[:100]!r}",
            )
            return None
        found[match] = None
    return Condition(parent=parent.name, values=tuple(found))


def _finder(parent: SearchParameter) -> Callable[[Any], Value | None]:
    """Return what finds the parent's value for a condition's, or ``None``."""
    if parent.kind is ParameterKind.CATEGORICAL:
        known = set(parent.values)
        return lambda value: value if value in known else None
    if parent.kind is ParameterKind.INTEGER:
        return lambda value: int(value) if parent.low <= int(value) <= parent.high else None
    points = [float(value) for value in parent.values]
    return lambda value: _nearest(points, float(value))


def _nearest(points: Sequence[float], value: float) -> float | None:
    """Return which of ``points``, ascending, is nearest to ``value`` within the epsilon."""
    place = bisect_left(points, value)
    near = [point for point in points[max(place - 1, 0) : place + 1] if abs(point - value) <= _EPSILON]
    return min(near, key=lambda point: abs(point - value), default=None)
