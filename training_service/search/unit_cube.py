"""
The search space as the search sees it: one coordinate a parameter.

Numbers lie in 0 to 1 on their scale; a category is its index. Countable numbers lie on a grid; ``snap`` puts
any point on it, so that the Gaussian process never learns of a point other than the one that was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_api.job.tuning.search_terms import ParameterKind, ScaleType
from training_service.search.search_space import Assignment, Parameter, SearchSpace

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One coordinate of the cube."""

    parameter: Parameter

    @property
    def is_category(self) -> bool:
        """Whether two values are either the same or not, and no nearer or farther."""
        return self.parameter.kind is ParameterKind.CATEGORICAL

    @property
    def is_continuous(self) -> bool:
        """Whether there are values between any two."""
        return self.parameter.size is None

    def coordinate(self, value: float | int | str) -> float:
        """Return the coordinate of one of the parameter's values."""
        if self.parameter.kind in (ParameterKind.CATEGORICAL, ParameterKind.DISCRETE):
            index = self.parameter.values.index(value)
            return float(index) if self.is_category else float(self.marks()[index])
        return float(self._scaled(np.array([float(value)]))[0])

    def value(self, coordinate: float) -> float | int | str:
        """Return the parameter's value at ``coordinate``, or the nearest one."""
        if self.is_category:
            return self.parameter.value_at(int(coordinate))
        if self.parameter.kind is ParameterKind.DISCRETE:
            return self.parameter.value_at(int(np.argmin(np.abs(self.marks() - coordinate))))
        number = float(self._unscaled(np.array([coordinate]))[0])
        if self.parameter.kind is ParameterKind.INTEGER:
            return int(min(max(round(number), int(self.parameter.low)), int(self.parameter.high)))
        return min(max(number, self.parameter.low), self.parameter.high)

    def spread(self, uniform: Array) -> Array:
        """
        Return coordinates that are uniform if ``uniform``, (N,) in 0 to 1, is.

        Each of a few values is equally likely.
        """
        if not self.is_category and self.parameter.kind is not ParameterKind.DISCRETE:
            return self.snap(uniform)
        size = len(self.parameter.values)
        indices = np.minimum((uniform * size).astype(np.intp), size - 1)
        return indices.astype(np.float64) if self.is_category else self.marks()[indices]

    def snap(self, coordinates: Array) -> Array:
        """Return the nearest coordinates that have a value; same shape, (N,)."""
        if self.is_continuous:
            return np.clip(coordinates, 0.0, 1.0)
        if self.is_category:
            return np.clip(np.rint(coordinates), 0, len(self.parameter.values) - 1)
        if self.parameter.kind is ParameterKind.DISCRETE:
            marks = self.marks()
            return marks[np.argmin(np.abs(coordinates[:, None] - marks[None, :]), axis=1)]
        low, high = self.parameter.low, self.parameter.high
        return self._scaled(np.clip(np.rint(self._unscaled(np.clip(coordinates, 0.0, 1.0))), low, high))

    def neighbours(self, coordinate: float, limit: int) -> Array:
        """
        Return up to ``limit`` other coordinates with a value.

        All, if there are no more; else steps of 1, 2, 4 ... to each side.
        """
        size = self.parameter.size or 1
        if size <= limit + 1:
            indices = np.arange(size, dtype=np.float64)
            here = self._index(coordinate)
        else:
            here = self._index(coordinate)
            steps = 2.0 ** np.arange(limit // 2)
            indices = np.unique(np.clip(np.concatenate([here - steps, here + steps]), 0, size - 1))
        return self._at(indices[indices != here])

    def marks(self) -> Array:
        """
        Return the coordinates of a DISCRETE's values, ascending.

        Evenly spaced unless a scale is set.
        """
        size = len(self.parameter.values)
        if self.parameter.scale is ScaleType.NONE:
            return (np.arange(size) + 0.5) / size
        return self._scaled(np.array(self.parameter.values, dtype=np.float64))

    def _index(self, coordinate: float) -> float:
        if self.is_category:
            return coordinate
        if self.parameter.kind is ParameterKind.DISCRETE:
            return float(np.argmin(np.abs(self.marks() - coordinate)))
        return float(self.value(coordinate)) - self.parameter.low

    def _at(self, indices: Array) -> Array:
        if self.is_category:
            return indices
        if self.parameter.kind is ParameterKind.DISCRETE:
            return self.marks()[indices.astype(np.intp)]
        return self._scaled(indices + self.parameter.low)

    def _ends(self) -> tuple[float, float]:
        if self.parameter.kind is ParameterKind.DISCRETE:
            return float(self.parameter.values[0]), float(self.parameter.values[-1])
        # Half a step beyond the ends: the first and the last integer are as likely as any other.
        margin = 0.5 if self.parameter.kind is ParameterKind.INTEGER else 0.0
        return self.parameter.low - margin, self.parameter.high + margin

    def _scaled(self, numbers: Array) -> Array:
        low, high = self._ends()
        is_reverse = self.parameter.scale is ScaleType.REVERSE_LOG
        if is_reverse:
            numbers = high - numbers + low
        if is_reverse or self.parameter.scale is ScaleType.LOG:
            low, high, numbers = float(np.log(low)), float(np.log(high)), np.log(numbers)
        # Of two neighbouring numbers the logarithms may be the same.
        if low == high:
            return np.full_like(numbers, 0.5)
        if is_reverse:
            return 1.0 - (numbers - low) / (high - low)
        # Halves: the difference of two finite numbers may be infinite.
        return (numbers / 2 - low / 2) / (high / 2 - low / 2)

    def _unscaled(self, coordinates: Array) -> Array:
        low, high = self._ends()
        if self.parameter.scale is ScaleType.LOG:
            return np.exp(np.log(low) * (1 - coordinates) + np.log(high) * coordinates)
        if self.parameter.scale is ScaleType.REVERSE_LOG:
            # Source: discovery, ScaleType: "values close to the top of the feasible space are spread out
            # more".
            return high + low - np.exp(np.log(low) * coordinates + np.log(high) * (1 - coordinates))
        return low * (1 - coordinates) + high * coordinates


@dataclass(frozen=True, slots=True)
class UnitCube:
    """
    All coordinates of a space; a point is an array (D,), points are (N, D).

    A parameter has its coordinate also where its condition does not hold; no value comes of it there.
    """

    dimensions: tuple[Dimension, ...]

    @classmethod
    def of(cls, space: SearchSpace) -> UnitCube:
        """Return the cube of ``space``. Pure."""
        return cls(tuple(Dimension(parameter) for parameter in space.parameters))

    @property
    def categories(self) -> NDArray[np.bool_]:
        """Which coordinates are categories, (D,)."""
        return np.array([dimension.is_category for dimension in self.dimensions])

    def points(self, assignments: Sequence[Assignment]) -> Array:
        """Return the points of ``assignments``, (N, D); of a space without conditions only."""
        rows = [
            [item.coordinate(each[item.parameter.name]) for item in self.dimensions] for each in assignments
        ]
        return np.array(rows, dtype=np.float64).reshape(len(assignments), len(self.dimensions))

    def assignment(self, point: Array) -> dict[str, float | int | str]:
        """Return the assignment nearest to ``point``."""
        found: dict[str, float | int | str] = {}
        for item, at in zip(self.dimensions, point, strict=True):
            if item.parameter.is_active(found):
                found[item.parameter.name] = item.value(float(at))
        return found

    def spread(self, uniform: Array) -> Array:
        """Return points from ``uniform`` numbers in 0 to 1, (N, D)."""
        return np.column_stack([item.spread(uniform[:, place]) for place, item in enumerate(self.dimensions)])

    def snap(self, points: Array) -> Array:
        """Return the nearest points that have an assignment."""
        return np.column_stack([item.snap(points[:, place]) for place, item in enumerate(self.dimensions)])
