"""Axes of a plot of trials: the place of a value, and the values written beside the axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training_api.job.tuning.search_terms import ParameterKind, ScaleType, SearchParameter

_LOG = {ScaleType.LOG: "log scale", ScaleType.REVERSE_LOG: "reverse log scale"}
#: Ticks closer than this to an end of the axis would run into its label.
_CLEARANCE = 0.06
_MOST_TICKS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotAxis:
    """
    One axis.

    :param note: below the name: the scale, where it is not linear.
    :param ticks: place (0 the lower end, 1 the upper) and label.
    :param place: place of a value as the trainer got it; ``None`` for one that is not on the axis.
    """

    name: str
    note: str
    ticks: tuple[tuple[float, str], ...]
    place: Callable[[str], float | None]


def parameter_axis(parameter: SearchParameter) -> PlotAxis:
    """Return the axis of a searched parameter, in the parameter's own scale. Pure."""
    if parameter.kind is ParameterKind.CATEGORICAL:
        return _category_axis(parameter.name, [str(value) for value in parameter.values])
    values = [float(value) for value in parameter.values]
    low, high = (values[0], values[-1]) if values else (parameter.low, parameter.high)
    scale = parameter.scale if parameter.scale in _LOG and 0 < low < high else None
    return number_axis(parameter.name, low, high, scale=scale, values=values)


def number_axis(
    name: str,
    low: float,
    high: float,
    *,
    scale: ScaleType | None = None,
    values: Sequence[float] = (),
    note: str = "",
) -> PlotAxis:
    """
    Return an axis of numbers from ``low`` to ``high``, both included.

    Pure.

    :param scale: a logarithmic one, for which ``0 < low < high``; ``None``: linear.
    :param note: in place of the scale.
    :param values: those that get a label; few enough, or ticks are chosen instead.
    """
    to_unit = _to_unit(low, high, scale)
    wanted = values if 0 < len(values) <= _MOST_TICKS else _ticks(low, high, scale)
    places = [(to_unit(value), f"{value:.4g}") for value in wanted]
    ends = [(to_unit(low), f"{low:.4g}"), (to_unit(high), f"{high:.4g}")]
    inner = [tick for tick in places if all(abs(tick[0] - end) >= _CLEARANCE for end, _ in ends)]

    def place(text: str) -> float | None:
        try:
            value = float(text)
        except ValueError:
            return None
        return to_unit(value) if low <= value <= high else None

    return PlotAxis(
        name=name,
        note=note or (_LOG[scale] if scale else ""),
        ticks=tuple(dict.fromkeys([ends[0], *inner, ends[1]])),
        place=place,
    )


def _category_axis(name: str, categories: Sequence[str]) -> PlotAxis:
    gap = 1 / max(len(categories) - 1, 1)
    places = {
        category: index * gap if len(categories) > 1 else 0.5 for index, category in enumerate(categories)
    }
    return PlotAxis(
        name=name,
        note="",
        ticks=tuple((place, category) for category, place in places.items()),
        place=places.get,
    )


def _to_unit(low: float, high: float, scale: ScaleType | None) -> Callable[[float], float]:
    if high <= low:
        return lambda value: 0.5
    if scale is ScaleType.LOG:
        return lambda value: math.log(value / low) / math.log(high / low)
    if scale is ScaleType.REVERSE_LOG:
        # discovery, ScaleType: "values close to the top of the feasible space are spread out more".
        return lambda value: 1 - math.log((high + low - value) / low) / math.log(high / low)
    return lambda value: (value - low) / (high - low)


def _ticks(low: float, high: float, scale: ScaleType | None) -> list[float]:
    """
    Return round values between the ends.

    A few for a linear axis, the powers of ten for a logarithmic one.
    """
    if high <= low:
        return []
    if scale is ScaleType.LOG:
        powers = [
            10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
        ]
        return powers[:: max(len(powers) // _MOST_TICKS + 1, 1)]
    if scale is ScaleType.REVERSE_LOG:
        return [high + low - low * (high / low) ** part for part in (0.75, 0.5, 0.25)]
    raw = (high - low) / 5
    size = 10 ** math.floor(math.log10(raw))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]
