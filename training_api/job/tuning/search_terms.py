"""The words of a search in any dialect: goals, methods, parameters, scales. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

#: A value of a parameter: a float (DOUBLE, DISCRETE), an int (INTEGER) or a string (CATEGORICAL).
Value = float | int | str


class Goal(StrEnum):
    """Direction of a tuning job's metric."""

    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"


class SearchAlgorithm(StrEnum):
    """How the next trial is chosen."""

    BAYESIAN = "BAYESIAN"
    GRID = "GRID"
    RANDOM = "RANDOM"


class ParameterKind(StrEnum):
    """What values a searched parameter has."""

    DOUBLE = "DOUBLE"
    INTEGER = "INTEGER"
    CATEGORICAL = "CATEGORICAL"
    DISCRETE = "DISCRETE"


class ScaleType(StrEnum):
    """How a parameter is mapped onto the unit interval; NONE spreads DISCRETE values evenly."""

    NONE = "NONE"
    LINEAR = "LINEAR"
    LOG = "LOG"
    REVERSE_LOG = "REVERSE_LOG"


class Stopping(StrEnum):
    """By what rule trials without a chance are stopped before their end."""

    NONE = "NONE"
    DECAY_CURVE = "DECAY_CURVE"
    MEDIAN = "MEDIAN"


class Selection(StrEnum):
    """Which of its measurements is a trial's final one."""

    LAST = "LAST"
    BEST = "BEST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """
    When a parameter is searched: while its parent is searched and has one of some values.

    :param parent: the name of the parent, an INTEGER, CATEGORICAL or DISCRETE.
    :param values: of the parent: at least one, each once.
    """

    parent: str
    values: tuple[str, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParameter:
    """
    One searched dimension as it was asked for.

    :param low: the least value of a DOUBLE or INTEGER, inclusive; whole for an INTEGER.
    :param high: the greatest, inclusive.
    :param values: the choices of a CATEGORICAL (strings) or a DISCRETE (floats, ascending); empty otherwise.
    :param condition: when it is searched; ``None``: in every trial.
    """

    name: str
    kind: ParameterKind
    low: float = 0.0
    high: float = 0.0
    scale: ScaleType = ScaleType.NONE
    values: tuple[str, ...] | tuple[float, ...] = ()
    condition: Condition | None = None

    def is_active(self, chosen: Mapping[str, Value]) -> bool:
        """Tell whether a trial has this parameter, given the values of those that stand before it."""
        if self.condition is None:
            return True
        return chosen.get(self.condition.parent) in self.condition.values
