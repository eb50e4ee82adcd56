"""
What a study searches: its parameters, and the words for their values.

Those of the API and of the containers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from training_api.job.tuning.search_terms import ParameterKind, ScaleType, SearchParameter, Value

#: Parameter name -> value, of the parameters that a trial has.
Assignment = Mapping[str, Value]
_NUMBERS = (ParameterKind.DOUBLE, ParameterKind.INTEGER)
_LOG_SCALES = (ScaleType.LOG, ScaleType.REVERSE_LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(SearchParameter):
    """
    One searched dimension that has values.

    :raises ValueError: there is no such dimension: no value to choose, or a log scale of what is not
        positive.
    """

    def __post_init__(self) -> None:
        if self.kind in _NUMBERS:
            self._check_range()
        elif not self.values or len(set(self.values)) != len(self.values):
            raise ValueError(
                f"parameter {self.name!r} must have at least one value, each once; got {self.values!r}"
            )
        numbers = (self.low,) if self.kind in _NUMBERS else self.values
        if self.scale in _LOG_SCALES and any(
            isinstance(value, float | int) and value <= 0 for value in numbers
        ):
            raise ValueError(
                f"parameter {self.name!r} must be strictly positive throughout for {self.scale.value}"
            )

    def _check_range(self) -> None:
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not finite or self.low > self.high:
            raise ValueError(
                f"parameter {self.name!r} must have minValue <= maxValue, both finite; got {self.low}, "
                f"{self.high}"
            )
        if self.kind is ParameterKind.INTEGER and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(
                f"parameter {self.name!r} is an INTEGER: its bounds must be whole, got {self.low}, "
                f"{self.high}"
            )

    @property
    def size(self) -> int | None:
        """Number of values; ``None``: a DOUBLE of more than one value."""
        if self.kind is ParameterKind.INTEGER:
            return int(self.high) - int(self.low) + 1
        if self.kind is ParameterKind.DOUBLE:
            return 1 if self.low == self.high else None
        return len(self.values)

    def value_at(self, index: int) -> float | int | str:
        """
        Return the ``index``-th value, 0 <= index < ``size``, in the space's order.

        Ascending, or that of the request.
        """
        if self.kind is ParameterKind.INTEGER:
            return int(self.low) + index
        return self.low if self.kind is ParameterKind.DOUBLE else self.values[index]

    def places(self, values: Collection[Value]) -> list[int]:
        """
        Return the index of each of ``values``, as ``value_at`` takes it.

        For an INTEGER, CATEGORICAL or DISCRETE only.

        :raises ValueError: one of them is no value of this parameter.
        """
        if self.kind is ParameterKind.INTEGER:
            known = {value: int(value) - int(self.low) for value in values if self.contains(value)}
        else:
            known = {self.values[place]: place for place in range(len(self.values))}
        try:
            return [known[value] for value in values]
        except KeyError as error:
            raise ValueError(f"{error.args[0]!r} is no value of the parameter {self.name!r}") from error

    def contains(self, value: object) -> bool:
        """Whether ``value`` is of the right type and one of the parameter's values."""
        if self.kind is ParameterKind.CATEGORICAL:
            return isinstance(value, str) and value in self.values
        if isinstance(value, bool) or not isinstance(value, float | int):
            return False
        if self.kind is ParameterKind.DISCRETE:
            return value in self.values
        whole = self.kind is ParameterKind.DOUBLE or isinstance(value, int)
        return whole and self.low <= value <= self.high

    def render(self, value: float | int | str) -> str:
        """Return ``value`` as the API and the containers see it."""
        if isinstance(value, float) and self.kind is ParameterKind.DISCRETE and value.is_integer():
            return str(int(value))
        return value if isinstance(value, str) else repr(value)

    def parse(self, text: str) -> float | int | str:
        """
        Return the value that ``render`` wrote.

        :raises ValueError: ``text`` is no value of this parameter.
        """
        value: float | int | str = text
        if self.kind is ParameterKind.INTEGER:
            value = int(text)
        elif self.kind is not ParameterKind.CATEGORICAL:
            value = float(text)
        if not self.contains(value):
            raise ValueError(f"{text!r} is no value of the parameter {self.name!r}")
        return value


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """
    All parameters of a study, in the request's order.

    :raises ValueError: there is none, two have the same name, or a condition's parent does not stand before
        it, is a DOUBLE, or lacks one of its values.
    """

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a study must have at least one parameter, each name once; got {names!r}")
        before: dict[str, Parameter] = {}
        for parameter in self.parameters:
            _check_condition(parameter, before)
            before[parameter.name] = parameter

    @classmethod
    def of(cls, parameters: Iterable[SearchParameter]) -> SearchSpace:
        """Return the space of a study's parameters. Pure."""
        return cls(tuple(_parameter(each) for each in parameters))

    @property
    def is_countable(self) -> bool:
        """Whether no parameter is a DOUBLE of more than one value."""
        return all(parameter.size is not None for parameter in self.parameters)

    @property
    def is_tree(self) -> bool:
        """Whether some parameters depend on others."""
        return any(parameter.condition for parameter in self.parameters)

    def contains(self, assignment: Assignment) -> bool:
        """Whether ``assignment`` has a value of every active parameter, and no other."""
        active = [parameter for parameter in self.parameters if parameter.is_active(assignment)]
        return len(assignment) == len(active) and all(
            parameter.name in assignment and parameter.contains(assignment[parameter.name])
            for parameter in active
        )

    def render(self, assignment: Assignment) -> dict[str, str]:
        """
        Return the strings of ``TrialOutput.hyperparameters`` and of the containers' arguments.

        INTEGER ``'16'``; DOUBLE the shortest text that reads back as the same number; DISCRETE the same, and
        without a point where it is whole; CATEGORICAL as it is.
        """
        return {
            item.name: item.render(assignment[item.name])
            for item in self.parameters
            if item.is_active(assignment)
        }

    def parse(self, rendered: Mapping[str, str]) -> dict[str, float | int | str]:
        """
        Return the assignment that ``render`` wrote: an exact round trip.

        :raises ValueError: a parameter is missing, unknown, or has a text that is none of its values.
        """
        found: dict[str, float | int | str] = {}
        for item in self.parameters:
            if item.is_active(found):
                if item.name not in rendered:
                    raise ValueError(f"an assignment must name {item.name!r}, got {sorted(rendered)}")
                found[item.name] = item.parse(rendered[item.name])
        if rendered.keys() != found.keys():
            raise ValueError(f"an assignment must name {sorted(found)}, got {sorted(rendered)}")
        return found

    def key(self, assignment: Assignment) -> tuple[float | int | str, ...]:
        """
        Return the values in the parameters' order.

        Two assignments are the same if their keys are equal: each value says which parameter is next.
        """
        return tuple(assignment[item.name] for item in self.parameters if item.name in assignment)


def _check_condition(parameter: Parameter, before: Mapping[str, Parameter]) -> None:
    condition = parameter.condition
    if condition is None:
        return
    parent = before.get(condition.parent)
    if parent is None or parent.kind is ParameterKind.DOUBLE:
        raise ValueError(
            f"parameter {parameter.name!r} must stand after its parent, which is no DOUBLE; got {condition.parent!r}"
        )
    if len(set(condition.values)) != len(condition.values) or not parent.places(condition.values):
        raise ValueError(
            f"parameter {parameter.name!r} must have at least one value of its parent, each once; got "
            f"{condition.values!r}"
        )


def _parameter(asked: SearchParameter) -> Parameter:
    return Parameter(
        name=asked.name,
        kind=asked.kind,
        low=asked.low,
        high=asked.high,
        scale=asked.scale,
        values=asked.values,
        condition=asked.condition,
    )
