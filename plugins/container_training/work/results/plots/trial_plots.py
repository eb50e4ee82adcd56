"""
Plots of a study, as Vega-Lite specifications: data and marks in one JSON object.

Source: https://vega.github.io/vega-lite/docs/ (version 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from container_training.work.results.plots.axes import PlotAxis, number_axis, parameter_axis
from container_training.work.results.plots.parts import (
    HEIGHT,
    Spec,
    chart,
    haloed_text,
    plain_text,
    status_encoding,
)
from training_api.dialects.ml_v1.trials import best_trial, is_better
from training_api.job.results import TrialRow
from training_api.job.tuning.search_terms import Goal, ScaleType
from training_api.job.tuning.study_spec import StudySpec
from training_api.states import JobState

_BEST_COLOR = "#d95f02"
_GREY = "#8a8a8a"
_AXIS_GAP = 170
#: What became of a trial -> how its line and its point look.
_DASHES = {
    "completed": [1, 0],
    "stopped early": [6, 4],
    "failed": [2, 3],
    "cancelled": [2, 3],
    "running": [1, 5],
}
_SHAPES = {"completed": "circle", "stopped early": "triangle-down", "failed": "cross", "cancelled": "square"}
#: A range of objectives beyond this would put all but the worst trials into one line of pixels.
_WIDE_RANGE = 100.0


def parallel_coordinates(job_id: str, study: StudySpec, rows: Sequence[TrialRow]) -> Spec:
    """
    Return the plot with an axis for each parameter and the objective, a line for each trial.

    Pure. Axes of parameters have the parameters' own scales. A trial without an objective ends before the
    last axis. The darker the better; the best trial is drawn on top, in a colour of its own.
    """
    best = best_trial(rows, study.goal)
    axes = [*map(parameter_axis, study.parameters), _objective_axis(study, rows)]
    points = [point for row in rows for point in _points(study, axes, row)]
    best_points = [point for point in points if best and point["trial"] == best.trial_id]
    last = max(len(axes) - 1, 1)
    x = {"field": "axis", "type": "quantitative", "scale": {"domain": [0, last]}, "axis": None}
    y = {"field": "place", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": None}
    tooltip = _tooltip(study, "trial", "status", "objective", "parameter", "value")
    # Dark is good, whichever direction that is.
    color = {
        "field": "objective",
        "type": "quantitative",
        "scale": {
            "scheme": {"name": "blues", "extent": [0.3, 1]},
            "reverse": study.goal is Goal.MINIMIZE,
            "type": "log" if _is_wide(_objectives(rows)) else "linear",
        },
        "legend": {"title": study.metric_tag, "gradientLength": 160, "offset": 40, "format": ".4~g"},
    }
    dash = status_encoding(_DASHES, [point["status"] for point in points], "range")
    with_value = [point for point in points if point["objective"] is not None]
    line = {"x": x, "y": y, "detail": {"field": "trial"}, "tooltip": tooltip}
    ticks = [
        {"axis": index, "place": place, "label": label}
        for index, axis in enumerate(axes)
        for place, label in axis.ticks
    ]
    titles = [{"axis": index, "name": axis.name, "note": axis.note} for index, axis in enumerate(axes)]
    return chart(
        f"Trials of {job_id}",
        _subtitle(study, best),
        title_offset=48,
        width=last * _AXIS_GAP,
        padding={"top": 5, "bottom": 10, "left": 60, "right": 20},
        layer=[
            {"data": {"values": titles}, "mark": {"type": "rule", "color": "#333"}, "encoding": {"x": x}},
            {
                "data": {"values": [point for point in points if point["objective"] is None]},
                "mark": {"type": "line", "strokeWidth": 1.6, "color": _GREY},
                "encoding": {**line, "strokeDash": dash},
            },
            {
                "data": {"values": [point for point in with_value if point not in best_points]},
                "mark": {"type": "line", "strokeWidth": 1.6, "opacity": 0.8},
                "encoding": {**line, "color": color, "strokeDash": dash},
            },
            {
                "data": {"values": best_points},
                "mark": {
                    "type": "line",
                    "strokeWidth": 3.5,
                    "color": _BEST_COLOR,
                    "point": {"color": _BEST_COLOR},
                },
                "encoding": line,
            },
            *haloed_text({"values": ticks}, "label", {"x": x, "y": y}, align="right", dx=-6, fontSize=11),
            plain_text(
                {"values": titles}, "name", {"x": x, "y": {"value": -30}}, fontSize=13, fontWeight="bold"
            ),
            plain_text({"values": titles}, "note", {"x": x, "y": {"value": -16}}, fontSize=10, color="#666"),
        ],
    )


def best_so_far(job_id: str, study: StudySpec, rows: Sequence[TrialRow]) -> Spec:
    """
    Return the plot of all objectives in the order of their ends, with the best until then.

    Pure. Trials without an objective lie on the worse edge.
    """
    ended = sorted((row for row in rows if row.ended_at), key=lambda row: (row.ended_at, row.trial_id))
    points: list[Spec] = [
        {"number": number, "trial": row.trial_id, "status": status_of(row), "objective": row.objective}
        for number, row in enumerate(ended, 1)
    ]
    curve = [{"number": number, "objective": value} for number, value in best_curve(ended, study.goal)]
    best = best_trial(rows, study.goal)
    at_best = [
        {**point, "label": f"trial {point['trial']}"}
        for point in points
        if best and point["trial"] == best.trial_id
    ]
    x = {
        "field": "number",
        "type": "quantitative",
        "axis": {"title": "trials ended", "tickMinStep": 1, "format": "d", "grid": False},
        "scale": {"domain": [0.5, max(len(ended), 1) + 0.5], "nice": False},
    }
    is_log = _is_wide(_objectives(rows))
    direction = f"{study.metric_tag} ({_direction(study, is_log=is_log)})"
    y = {
        "field": "objective",
        "type": "quantitative",
        # The padding is for the label of the best trial.
        "scale": {"padding": 26, **({"type": "log"} if is_log else {"zero": False})},
        "axis": {"title": direction},
    }
    shape = status_encoding(_SHAPES, [point["status"] for point in points], "range")
    # The label of the best trial has the other edge for itself.
    is_low_good = study.goal is Goal.MINIMIZE
    worst_edge = 6 if is_low_good else HEIGHT - 6
    tooltip = _tooltip(study, "trial", "status", "objective")
    with_value = [point for point in points if point["objective"] is not None]
    without = [point for point in points if point["objective"] is None]
    mark = {"type": "point", "filled": True, "size": 60, "opacity": 0.85}
    return chart(
        f"Best {study.metric_tag} so far, {job_id}",
        _subtitle(study, best),
        title_offset=26,
        width=620,
        layer=[
            {
                "data": {"values": curve},
                "mark": {
                    "type": "line",
                    "interpolate": "step-after",
                    "strokeWidth": 2.5,
                    "color": _BEST_COLOR,
                },
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": with_value},
                "mark": {**mark, "color": "#2b6ca3"},
                "encoding": {"x": x, "y": y, "shape": shape, "tooltip": tooltip},
            },
            {
                "data": {"values": without},
                "mark": {**mark, "color": _GREY},
                "encoding": {"x": x, "y": {"value": worst_edge}, "shape": shape, "tooltip": tooltip},
            },
            {
                "data": {"values": at_best},
                "mark": {"type": "point", "size": 220, "strokeWidth": 2.5, "color": _BEST_COLOR},
                "encoding": {"x": x, "y": y},
            },
            *haloed_text(
                {"values": at_best},
                "label",
                {"x": x, "y": y},
                dy=20 if is_low_good else -18,
                fontSize=12,
                color=_BEST_COLOR,
                fontWeight="bold",
            ),
        ],
    )


def best_curve(ended: Sequence[TrialRow], goal: Goal) -> list[tuple[int, float]]:
    """
    Return the best objective after so many ended trials, from the first trial that has one.

    Pure.

    :param ended: in the order in which they ended.
    """
    curve: list[tuple[int, float]] = []
    best: TrialRow | None = None
    for number, row in enumerate(ended, 1):
        if row.is_done and row.objective is not None and (best is None or is_better(row, best, goal)):
            best = row
        if best is not None and best.objective is not None:
            curve.append((number, best.objective))
    return curve


def status_of(row: TrialRow) -> str:
    """Return what became of a trial, in words. Pure."""
    if row.is_done:
        return "stopped early" if row.is_stopped_early else "completed"
    if row.state.is_terminal:
        return "failed" if row.state is JobState.FAILED else "cancelled"
    return "running"


def _points(study: StudySpec, axes: Sequence[PlotAxis], row: TrialRow) -> Iterator[Spec]:
    """Yield where the trial's line meets the axes of what the trial has."""
    values = [row.hyperparameters.get(axis.name) for axis in axes[:-1]]
    objective = row.objective if row.is_done else None
    values.append(None if objective is None else repr(objective))
    for index, (axis, value) in enumerate(zip(axes, values, strict=True)):
        place = None if value is None else axis.place(value)
        if place is not None:
            yield {
                "trial": row.trial_id,
                "status": status_of(row),
                "objective": objective,
                "axis": index,
                "place": place,
                "parameter": axis.name,
                "value": value,
            }


def _objective_axis(study: StudySpec, rows: Sequence[TrialRow]) -> PlotAxis:
    known = _objectives(rows) or [0.0]
    scale = ScaleType.LOG if _is_wide(known) else None
    return number_axis(
        study.metric_tag, min(known), max(known), scale=scale, note=_direction(study, is_log=bool(scale))
    )


def _objectives(rows: Sequence[TrialRow]) -> list[float]:
    return [row.objective for row in rows if row.is_done and row.objective is not None]


def _tooltip(study: StudySpec, *fields: str) -> list[Spec]:
    return [
        {"field": field, "title": study.metric_tag if field == "objective" else field} for field in fields
    ]


def _direction(study: StudySpec, *, is_log: bool = False) -> str:
    direction = "lower is better" if study.goal is Goal.MINIMIZE else "higher is better"
    return f"{direction}, log scale" if is_log else direction


def _subtitle(study: StudySpec, best: TrialRow | None) -> str:
    if best is None or best.objective is None:
        return f"no trial has reported {study.metric_tag} yet"
    value = f"{study.metric_tag} {best.objective:.6g}"
    return f"best, in orange: trial {best.trial_id} with {value}; {_direction(study)}"


def _is_wide(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) / _WIDE_RANGE >= min(values)
