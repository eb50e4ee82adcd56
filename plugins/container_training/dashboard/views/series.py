"""Curves of metrics and of used resources, thinned to what a screen can show. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from training_api.dialects.ml_v1.trials import trial_number
from training_api.fleet.thinning import kept_places
from training_api.fleet.wire import Curve, UsageSeries

#: Points of one curve: about two a pixel.
MAX_POINTS = 1500
#: Points of all curves of an answer together, about a megabyte.
MAX_ALL_POINTS = 60_000


def curves_view(curves: Sequence[Curve], objective: str | None) -> list[dict[str, Any]]:
    """
    Return the curves by tag, that of the study first.

    ``[{"tag", "isObjective", "curves": [{"trial", "steps", ...}]}]``.

    :param objective: tag of the metric that a study looks at.
    """
    most = _points_each(len(curves))
    by_tag: dict[str, list[Curve]] = {}
    for curve in sorted(curves, key=lambda curve: trial_number(curve.trial_id)):
        by_tag.setdefault(curve.tag, []).append(curve)
    return [
        {
            "tag": tag,
            "isObjective": tag == objective,
            "curves": [_curve(curve, most) for curve in by_tag[tag]],
        }
        for tag in sorted(by_tag, key=lambda tag: (tag != objective, tag))
    ]


def usage_view(series: Sequence[UsageSeries]) -> list[dict[str, Any]]:
    """Return the use of each replica, with its peaks, by trial and replica."""
    most = _points_each(len(series))
    ordered = sorted(series, key=lambda one: (trial_number(one.trial_id), one.replica))
    return [_usage(one, most) for one in ordered]


def _curve(curve: Curve, most: int) -> dict[str, Any]:
    places = kept_places(curve.values, most)
    return {
        "trial": curve.trial_id,
        "steps": [curve.steps[place] for place in places],
        "values": [curve.values[place] for place in places],
        "times": [curve.times[place] for place in places],
    }


def _usage(one: UsageSeries, most: int) -> dict[str, Any]:
    sampled: dict[str, Sequence[float | None]] = {"memory": one.memory_bytes}
    if any(value is not None for value in one.gpus):
        sampled |= {"gpus": one.gpus, "gpuMemory": one.gpu_memory_bytes}
    each = most // (1 + len(sampled))
    kept = (kept_places(values, each) for values in (one.cpu_cores, *sampled.values()))
    places = sorted(set().union(*kept))
    return {
        "replica": one.replica,
        "trial": one.trial_id,
        "cpuLimit": one.cpu_limit,
        "memoryLimit": one.memory_limit_bytes,
        "gpuLimit": one.gpu_limit,
        "cpuPeak": _peak(one.cpu_cores),
        "memoryPeak": _peak(one.memory_bytes),
        "gpusPeak": _peak(one.gpus),
        "gpuMemoryPeak": _peak(one.gpu_memory_bytes),
        "times": [round(one.times[place], 3) for place in places],
        "cpu": [round(one.cpu_cores[place], 4) for place in places],
        **{name: [values[place] for place in places] for name, values in sampled.items()},
    }


def _peak(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _points_each(curves: int) -> int:
    return max(min(MAX_POINTS, MAX_ALL_POINTS // max(curves, 1)), 20)
