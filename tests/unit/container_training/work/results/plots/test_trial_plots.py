"""The plots of a study: what is drawn, and how trials of each kind look."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.work.results.plots.trial_plots import best_curve, best_so_far, parallel_coordinates
from tests.support.fakes.fake_service import EPOCH
from tests.support.fakes.tuning_jobs import SEARCH, make_trial, make_tuning_job
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.ml_v1.trials import study_of, trial_rows
from training_api.job.tuning.search_terms import Goal, ParameterKind, SearchParameter
from training_api.job.tuning.study_spec import StudySpec

JOB = make_tuning_job(
    make_trial(1, 0.9, start=0),
    make_trial(2, 0.97, start=1, isTrialStoppedEarly=True),
    make_trial(3, None, start=2, state="FAILED"),
    make_trial(4, 0.95, start=3),
    make_trial(5, None, start=4, state="RUNNING", seconds=None),
)


def draw(plot: Any, job: Job = JOB) -> dict[str, Any]:
    study = study_of(job)
    assert study is not None
    spec: dict[str, Any] = plot("digits_1", study, trial_rows(job, EPOCH))
    return spec


def rows_of(spec: dict[str, Any], kind: str, **marks: Any) -> list[dict[str, Any]]:
    """Return the data of the layers of ``kind`` whose marks have ``marks``."""
    return [
        row
        for layer in spec["layer"]
        if layer["mark"]["type"] == kind and {**layer["mark"], **marks} == layer["mark"]
        for row in layer["data"]["values"]
    ]


def test_a_line_goes_over_all_parameters_to_the_objective() -> None:
    points = rows_of(draw(parallel_coordinates), "line")

    of_first = [point for point in points if point["trial"] == "1"]
    assert [point["parameter"] for point in of_first] == ["lr", "units", "optimizer", "accuracy"]
    assert [point["value"] for point in of_first] == ["0.01", "64", "adam", "0.9"]
    assert of_first[0]["place"] == pytest.approx(2 / 3)  # on a log scale from 1e-4 to 1e-1
    assert of_first[3]["place"] == 0.0


def test_a_line_skips_the_axis_of_a_parameter_that_the_trial_does_not_have() -> None:
    """Also where the empty text is a value."""
    kind = SearchParameter(name="kind", kind=ParameterKind.CATEGORICAL, values=("", "adam"))
    study = StudySpec(parameters=(kind,), metric_tag="accuracy")
    row = trial_rows(JOB, EPOCH)[0]

    spec = parallel_coordinates("digits_1", study, [row.model_copy(update={"hyperparameters": {}})])

    assert {point["parameter"] for point in rows_of(spec, "line")} == {"accuracy"}


def test_a_trial_without_an_objective_ends_before_the_last_axis() -> None:
    points = rows_of(draw(parallel_coordinates), "line")

    failed = [point for point in points if point["trial"] == "3"]
    assert [point["axis"] for point in failed] == [0, 1, 2]
    assert {point["status"] for point in failed} == {"failed"}


def test_the_best_trial_is_drawn_alone_on_top() -> None:
    spec = draw(parallel_coordinates)

    assert {point["trial"] for point in rows_of(spec, "line", strokeWidth=3.5)} == {"2"}
    assert "2" not in {point["trial"] for point in rows_of(spec, "line", strokeWidth=1.6)}
    assert spec["title"]["subtitle"] == "best, in orange: trial 2 with accuracy 0.97; higher is better"


def test_axes_say_their_scale_and_the_direction_of_the_goal() -> None:
    notes = {row["name"]: row["note"] for row in rows_of(draw(parallel_coordinates), "rule")}

    assert notes == {"lr": "log scale", "units": "", "optimizer": "", "accuracy": "higher is better"}


def test_kinds_of_trials_look_different_and_only_those_there_are_stand_in_the_legend() -> None:
    lines = [layer for layer in draw(parallel_coordinates)["layer"] if "strokeDash" in layer["encoding"]]
    points = [layer for layer in draw(best_so_far)["layer"] if "shape" in layer["encoding"]]

    dashes = lines[0]["encoding"]["strokeDash"]["scale"]
    assert dashes["domain"] == ["completed", "stopped early", "failed", "running"]
    assert len({tuple(dash) for dash in dashes["range"]}) == 4
    shapes = points[0]["encoding"]["shape"]["scale"]
    assert shapes == {
        "domain": ["completed", "stopped early", "failed"],
        "range": ["circle", "triangle-down", "cross"],
    }


def test_a_range_over_orders_of_magnitude_has_a_log_axis() -> None:
    job = make_tuning_job(
        make_trial(1, 0.001), make_trial(2, 5.0), search={"goal": "MINIMIZE", "maxTrials": 2}
    )

    y = draw(best_so_far, job)["layer"][0]["encoding"]["y"]

    assert y["scale"]["type"] == "log"
    assert y["axis"]["title"] == "accuracy (lower is better, log scale)"


def test_the_curve_is_the_best_until_then_in_the_order_of_the_ends() -> None:
    job = make_tuning_job(
        make_trial(1, 0.5, start=9),
        make_trial(2, None, state="FAILED", start=0),
        make_trial(3, 0.4, start=1),
        make_trial(4, 0.7, start=30),
    )

    curve = rows_of(draw(best_so_far, job), "line")

    assert [(point["number"], point["objective"]) for point in curve] == [(2, 0.4), (3, 0.5), (4, 0.7)]


def test_the_curve_of_a_minimum_never_rises() -> None:
    rows = trial_rows(make_tuning_job(make_trial(1, 0.5), make_trial(2, 0.7), make_trial(3, 0.2)), EPOCH)

    assert best_curve(rows, Goal.MINIMIZE) == [(1, 0.5), (2, 0.5), (3, 0.2)]


def test_a_metric_tag_with_slashes_and_dots_is_a_title_and_not_a_path() -> None:
    job = make_tuning_job(make_trial(1, 0.5), search={"hyperparameterMetricTag": "a.b/c[0]"})

    for plot in (parallel_coordinates, best_so_far):
        fields = [
            channel["field"]
            for layer in draw(plot, job)["layer"]
            for channel in layer["encoding"].values()
            if isinstance(channel, dict) and "field" in channel
        ]
        assert fields
        assert "a.b/c[0]" not in fields


def test_a_study_without_parameters_or_trials_can_be_drawn() -> None:
    job = make_tuning_job(search={**SEARCH, "params": []})

    assert draw(parallel_coordinates, job)["title"]["subtitle"] == "no trial has reported accuracy yet"
    assert draw(best_so_far, job)["layer"]
