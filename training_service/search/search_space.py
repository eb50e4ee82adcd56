"""
What a study searches: its parameters, and the words for their values.

Those of the API and of the containers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from training_api.job.tuning.search_terms import ParameterKind, ScaleType, SearchParameter

#: Parameter name -> value: a float (DOUBLE, DISCRETE), an int (INTEGER) or a string (CATEGORICAL).
Assignment = Mapping[str, float | int | str]
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

    :raises ValueError: there is none, or two have the same name.
    """

    parameters: tuple[Parameter, ...]

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a study must have at least one parameter, each name once; got {names!r}")

    @classmethod
    def of(cls, parameters: Iterable[SearchParameter]) -> SearchSpace:
        """Return the space of a study's parameters. Pure."""
        return cls(tuple(_parameter(each) for each in parameters))

    @property
    def size(self) -> int | None:
        """Number of assignments; ``None``: uncountable, a parameter is a DOUBLE."""
        sizes = [parameter.size for parameter in self.parameters]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def contains(self, assignment: Assignment) -> bool:
        """Whether ``assignment`` gives every parameter, and no other, one of its values."""
        return len(assignment) == len(self.parameters) and all(
            parameter.name in assignment and parameter.contains(assignment[parameter.name])
            for parameter in self.parameters
        )

    def render(self, assignment: Assignment) -> dict[str, str]:
        """
        Return the strings of ``TrialOutput.hyperparameters`` and of the containers' arguments.

        INTEGER ``'16'``; DOUBLE the shortest text that reads back as the same number; DISCRETE the same, and
        without a point where it is whole; CATEGORICAL as it is.
        """
        return {item.name: item.render(assignment[item.name]) for item in self.parameters}

    def parse(self, rendered: Mapping[str, str]) -> dict[str, float | int | str]:
        """
        Return the assignment that ``render`` wrote: an exact round trip.

        :raises ValueError: a parameter is missing, unknown, or has a text that is none of its values.
        """
        names = {parameter.name for parameter in self.parameters}
        if rendered.keys() != names:
            raise ValueError(f"an assignment must name {sorted(names)}, got {sorted(rendered)}")
        return {item.name: item.parse(rendered[item.name]) for item in self.parameters}

    def key(self, assignment: Assignment) -> tuple[float | int | str, ...]:
        """
        Return the values in the parameters' order.

        Two assignments are the same if their keys are equal.
        """
        return tuple(assignment[parameter.name] for parameter in self.parameters)

    def assignment_at(self, index: int) -> dict[str, float | int | str]:
        """
        Return the ``index``-th assignment of a countable space.

        The last parameter changes fastest.
        """
        values: dict[str, float | int | str] = {}
        for parameter in reversed(self.parameters):
            index, place = divmod(index, parameter.size or 1)
            values[parameter.name] = parameter.value_at(place)
        return {parameter.name: values[parameter.name] for parameter in self.parameters}

    def first_unseen(self, seen: Iterable[Assignment], start: int = 0) -> dict[str, float | int | str] | None:
        """
        Return the first assignment from ``start`` on, round the end, not in ``seen``.

        ``None``: all are in it.

        For a countable space only. Takes at most ``len(seen) + 1`` steps, however large the space.
        """
        size = self.size
        if size is None:
            raise ValueError("a space with a DOUBLE has no first assignment")
        taken = {self.key(assignment) for assignment in seen}
        for step in range(min(size, len(taken) + 1)):
            assignment = self.assignment_at((start + step) % size)
            if self.key(assignment) not in taken:
                return assignment
        return None


def _parameter(asked: SearchParameter) -> Parameter:
    return Parameter(
        name=asked.name,
        kind=asked.kind,
        low=asked.low,
        high=asked.high,
        scale=asked.scale,
        values=asked.values,
    )
