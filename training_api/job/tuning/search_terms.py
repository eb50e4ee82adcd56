"""The words of a search in any dialect: goals, methods, parameters, scales. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
class SearchParameter:
    """
    One searched dimension as it was asked for.

    :param low: the least value of a DOUBLE or INTEGER, inclusive; whole for an INTEGER.
    :param high: the greatest, inclusive.
    :param values: the choices of a CATEGORICAL (strings) or a DISCRETE (floats, ascending); empty otherwise.
    """

    name: str
    kind: ParameterKind
    low: float = 0.0
    high: float = 0.0
    scale: ScaleType = ScaleType.NONE
    values: tuple[str, ...] | tuple[float, ...] = ()
