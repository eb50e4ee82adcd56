"""Search spaces for the tests: each kind of parameter, and random spaces for the properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from training_api.job.tuning.search_terms import Condition, ParameterKind, ScaleType
from training_service.search.search_space import Parameter, SearchSpace

SCALES = list(ScaleType)
LOG_SCALES = (ScaleType.LOG, ScaleType.REVERSE_LOG)


def double(
    name: str = "x", low: float = 0.0, high: float = 1.0, scale: ScaleType = ScaleType.NONE
) -> Parameter:
    return Parameter(name=name, kind=ParameterKind.DOUBLE, low=low, high=high, scale=scale)


def integer(name: str = "n", low: int = 1, high: int = 8, scale: ScaleType = ScaleType.NONE) -> Parameter:
    return Parameter(name=name, kind=ParameterKind.INTEGER, low=float(low), high=float(high), scale=scale)


def category(name: str = "c", *values: str) -> Parameter:
    return Parameter(name=name, kind=ParameterKind.CATEGORICAL, values=values or ("a", "b", "c"))


def discrete(name: str = "d", *values: float, scale: ScaleType = ScaleType.NONE) -> Parameter:
    return Parameter(name=name, kind=ParameterKind.DISCRETE, values=values or (0.1, 0.5, 16.0), scale=scale)


def cube(dimensions: int, low: float = 0.0, high: float = 1.0) -> SearchSpace:
    return SearchSpace(tuple(double(f"x{place}", low, high) for place in range(dimensions)))


@st.composite
def parameters(draw: Any, name: str) -> Parameter:
    """Draw a parameter of any type, scale and size; one-point ranges included."""
    kind = draw(st.sampled_from(["double", "integer", "category", "discrete"]))
    scale = draw(st.sampled_from(SCALES))
    if kind == "category":
        return category(name, *draw(st.lists(st.text(max_size=5), min_size=1, max_size=6, unique=True)))
    if kind == "integer":
        ends = sorted(draw(st.tuples(*[st.integers(1 if scale in LOG_SCALES else -1000, 10**6)] * 2)))
        return integer(name, *ends, scale=scale)
    if kind == "discrete":
        thousandths = st.integers(1 if scale in LOG_SCALES else -(10**6), 10**6)
        values = sorted(draw(st.sets(thousandths, min_size=1, max_size=8)))
        return discrete(name, *(number / 1000 for number in values), scale=scale)
    numbers = st.floats(1e-9 if scale in LOG_SCALES else -1e9, 1e9, allow_subnormal=False)
    return double(name, *sorted(draw(st.tuples(numbers, numbers))), scale=scale)


@st.composite
def spaces(draw: Any, largest: int = 5) -> SearchSpace:
    """Draw a space of 1 to ``largest`` parameters."""
    return SearchSpace(tuple(draw(parameters(f"p{place}")) for place in range(draw(st.integers(1, largest)))))


def below(parent: Parameter, parameter: Parameter, *values: float | int | str) -> Parameter:
    """Return ``parameter``, searched with these values of ``parent``."""
    return replace(parameter, condition=Condition(parent=parent.name, values=values))  # type: ignore[arg-type]


@st.composite
def trees(draw: Any, *, countable: bool = False) -> SearchSpace:
    """Draw a small space in which parameters depend on those before them."""
    found: list[Parameter] = []

    def grow(parameter: Parameter, depth: int) -> None:
        found.append(parameter)
        values = small_values(parameter)
        for _ in range(draw(st.integers(0, 2)) if values and depth < 3 else 0):
            if len(found) < 7:
                chosen = draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
                grow(below(parameter, small(), *chosen), depth + 1)

    def small() -> Parameter:
        name = f"p{len(found)}"
        kinds = [integer(name, 1, 3), integer(name, 5, 5), category(name, "a", "b"), discrete(name, 0.5, 2.0)]
        return draw(st.sampled_from(kinds if countable else [*kinds, double(name)]))

    for _ in range(draw(st.integers(1, 3))):
        grow(small(), 0)
    return SearchSpace(tuple(found))


def small_values(parameter: Parameter) -> list[float | int | str]:
    """Return all values of a parameter of few; empty: it is a DOUBLE."""
    if parameter.kind is ParameterKind.INTEGER:
        return [*range(int(parameter.low), int(parameter.high) + 1)]
    return [*parameter.values]


def active_names(space: SearchSpace, assignment: Mapping[str, Any]) -> set[str]:
    """Return the names that an assignment must have, given its values."""
    by_name = {each.name: each for each in space.parameters}

    def is_on(name: str) -> bool:
        on = by_name[name].condition
        return on is None or (is_on(on.parent) and assignment[on.parent] in on.values)

    return {name for name in by_name if is_on(name)}
