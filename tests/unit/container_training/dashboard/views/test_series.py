"""Curves that are too long are thinned, and keep their peaks."""

from __future__ import annotations

from container_training.dashboard.views.series import MAX_POINTS, curves_view, usage_view
from training_api.fleet.wire import Curve, UsageSeries


def test_the_metric_of_the_study_comes_first_and_trials_by_number() -> None:
    curves = [
        Curve(tag=tag, trial_id=trial, steps=[1], values=[0.5], times=[1.0])
        for tag in ("a_loss", "score")
        for trial in ("10", "9")
    ]

    view = curves_view(curves, "score")

    assert [metric["tag"] for metric in view] == ["score", "a_loss"]
    assert [metric["isObjective"] for metric in view] == [True, False]
    assert [curve["trial"] for curve in view[0]["curves"]] == ["9", "10"]


def test_a_long_curve_is_thinned_in_all_its_columns() -> None:
    steps = list(range(100_000))
    curve = Curve(
        tag="loss", steps=steps, values=[1 / (1 + step) for step in steps], times=[*map(float, steps)]
    )

    (metric,) = curves_view([curve], None)

    (thin,) = metric["curves"]
    assert len(thin["steps"]) == len(thin["values"]) == len(thin["times"]) <= MAX_POINTS
    assert thin["steps"][-1] == 99_999


def test_use_has_its_peaks_and_limits_also_where_it_is_thinned() -> None:
    count = 5000
    memory = [2**20] * count
    memory[1234] = 2**30
    series = UsageSeries(
        replica="master-replica-0",
        cpu_limit=2.0,
        memory_limit_bytes=2**31,
        times=[*map(float, range(count))],
        cpu_cores=[0.5] * count,
        memory_bytes=memory,
    )

    (view,) = usage_view([series])

    assert len(view["times"]) == len(view["cpu"]) == len(view["memory"]) < count
    assert view["memoryPeak"] == 2**30
    assert 2**30 in view["memory"]
    assert (view["cpuLimit"], view["memoryLimit"]) == (2.0, 2**31)


def test_use_of_gpus_is_shown_where_there_are_any_and_keeps_its_peaks() -> None:
    count = 5 * MAX_POINTS
    busy: list[float | None] = [0.25] * count
    busy[777], busy[778] = 1.9, None
    series = UsageSeries(
        replica="master-replica-0",
        gpu_limit=2,
        times=[*map(float, range(count))],
        cpu_cores=[0.5] * count,
        memory_bytes=[1] * count,
        gpus=busy,
        gpu_memory_bytes=[2**33] * count,
    )

    (view,) = usage_view([series])

    assert len(view["times"]) == len(view["gpus"]) == len(view["gpuMemory"]) < count
    assert 1.9 in view["gpus"]
    assert (view["gpusPeak"], view["gpuMemoryPeak"], view["gpuLimit"]) == (1.9, 2**33, 2)


def test_a_replica_without_samples_has_no_peak() -> None:
    (view,) = usage_view([UsageSeries(replica="master-replica-0")])

    assert view["cpuPeak"] is None
    assert "gpus" not in view
