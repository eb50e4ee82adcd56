"""Search spaces for the tests: each kind of parameter, and random spaces for the properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from training_api.job.tuning.search_terms import ParameterKind, ScaleType
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
