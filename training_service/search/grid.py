"""The assignments of a countable space: their number, and each by its place. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from training_service.search.search_space import Assignment, Parameter, SearchSpace


@dataclass(frozen=True, slots=True)
class _Branch:
    """
    A parameter with those that depend on it.

    :param forks: place of a value -> what is searched together with this value; ascending, without the
        values that nothing depends on.
    :param size: number of its assignments.
    """

    parameter: Parameter
    forks: Mapping[int, _Branches]
    size: int

    def at(self, index: int) -> dict[str, float | int | str]:
        free = 0  # the first place after the forks that were passed
        for place, below in self.forks.items():
            if index < place - free:
                break
            index -= place - free
            if index < below.size:
                return {self.parameter.name: self.parameter.value_at(place), **below.at(index)}
            index -= below.size
            free = place + 1
        return {self.parameter.name: self.parameter.value_at(free + index)}


@dataclass(frozen=True, slots=True)
class _Branches:
    """Branches that are searched together; the last one changes fastest."""

    branches: Sequence[_Branch]
    size: int

    @classmethod
    def of(cls, branches: Sequence[_Branch]) -> _Branches:
        return cls(branches, math.prod(branch.size for branch in branches))

    def at(self, index: int) -> dict[str, float | int | str]:
        places = []
        for branch in reversed(self.branches):
            index, place = divmod(index, branch.size)
            places.append(place)
        found: dict[str, float | int | str] = {}
        for branch, place in zip(self.branches, reversed(places), strict=True):
            found |= branch.at(place)
        return found


class Grid:
    """
    Every assignment of a countable space once.

    A parameter changes slower than those after it, and those that depend on it follow it.

    :raises ValueError: the space is not countable.
    """

    def __init__(self, space: SearchSpace) -> None:
        if not space.is_countable:
            raise ValueError("a space with a DOUBLE has no grid")
        self._space = space
        self._all = _tree(space.parameters)

    @property
    def size(self) -> int:
        """Number of assignments."""
        return self._all.size

    def assignment_at(self, index: int) -> dict[str, float | int | str]:
        """Return the ``index``-th assignment, 0 <= index < ``size``."""
        return self._all.at(index)

    def first_unseen(self, seen: Iterable[Assignment], start: int = 0) -> dict[str, float | int | str] | None:
        """
        Return the first assignment from ``start`` on, round the end, not in ``seen``.

        ``None``: all are in it. Takes at most ``len(seen) + 1`` steps, however large the space.
        """
        taken = {self._space.key(assignment) for assignment in seen}
        for step in range(min(self.size, len(taken) + 1)):
            assignment = self.assignment_at((start + step) % self.size)
            if self._space.key(assignment) not in taken:
                return assignment
        return None


def _tree(parameters: Sequence[Parameter]) -> _Branches:
    """Return the branches of a space, whose parents stand before their children."""
    below: dict[str, list[_Branch]] = defaultdict(list)
    for parameter in reversed(parameters):
        branch = _branch(parameter, below.pop(parameter.name, [])[::-1])
        below[parameter.condition.parent if parameter.condition else ""].append(branch)
    return _Branches.of(below[""][::-1])


def _branch(parameter: Parameter, children: Sequence[_Branch]) -> _Branch:
    together: dict[int, list[_Branch]] = defaultdict(list)
    for child in children:
        if child.parameter.condition:
            for place in parameter.places(child.parameter.condition.values):
                together[place].append(child)
    forks = {place: _Branches.of(together[place]) for place in sorted(together)}
    plain = (parameter.size or 0) - len(forks)
    return _Branch(parameter, forks, plain + sum(each.size for each in forks.values()))
