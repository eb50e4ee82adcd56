"""Spans as the page draws them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from container_training.dashboard.views.timeline import MAX_LANES, timeline_view
from tests.support.fakes.job_rows import NOON, after, make_row
from training_api.fleet.wire import Span, SpanKind
from training_api.states import JobState


def run(name: str, start: float, end: float | None, **changes: Any) -> Span:
    return Span(
        kind=SpanKind.RUN,
        name=name,
        start_time=after(start),
        end_time=None if end is None else after(end),
        **{"attempt": "0.0", **changes},
    )


def seconds(moment: datetime, offset: float) -> float:
    return moment.timestamp() + offset


def test_phases_are_those_of_the_job_and_the_last_one_goes_on() -> None:
    view = timeline_view(make_row(), [], after(30))

    assert view["isLive"]
    assert view["end"] == seconds(NOON, 30)
    assert view["phases"] == [
        {"kind": "queue", "start": seconds(NOON, 0), "end": seconds(NOON, 2)},
        {"kind": "prepare", "start": seconds(NOON, 2), "end": seconds(NOON, 5)},
        {"kind": "run", "start": seconds(NOON, 5), "end": None},
    ]


def test_a_job_that_was_cancelled_in_the_queue_has_one_phase() -> None:
    row = make_row(state=JobState.CANCELLED, prepare_time=None, start_time=None, end_time=after(9))

    assert timeline_view(row, [], after(30))["phases"] == [
        {"kind": "queue", "start": seconds(NOON, 0), "end": seconds(NOON, 9)}
    ]


def test_restarts_are_runs_in_one_lane_with_their_ends() -> None:
    spans = [
        run("master-replica-0", 5, 8, exit_code=137),
        run("master-replica-0", 9, None, attempt="1.2"),
    ]

    (lane,) = timeline_view(make_row(), spans, after(30))["lanes"]

    assert [each["exitCode"] for each in lane["runs"]] == [137, None]
    assert (lane["runs"][1]["retry"], lane["runs"][1]["restart"]) == (1, 2)
    assert lane["runs"][1]["end"] is None


def test_a_run_whose_end_nobody_saw_ended_with_its_job() -> None:
    row = make_row(state=JobState.FAILED, end_time=after(20))

    (lane,) = timeline_view(row, [run("master-replica-0", 5, None)], after(30))["lanes"]

    assert lane["runs"][0]["end"] == seconds(NOON, 20)
    assert not lane["runs"][0]["isEndSeen"]


def test_master_comes_first_and_workers_by_number_and_the_late_one_is_marked() -> None:
    spans = [run(f"worker-replica-{index}", 5, 60) for index in (10, 2)]
    spans += [run("master-replica-0", 5, 60), run("worker-replica-3", 25, 60)]
    row = make_row(state=JobState.SUCCEEDED, end_time=after(61))

    lanes = timeline_view(row, spans, after(70))["lanes"]

    assert [lane["replica"] for lane in lanes] == [
        "master-replica-0",
        "worker-replica-2",
        "worker-replica-3",
        "worker-replica-10",
    ]
    assert [lane["late"] for lane in lanes] == [None, None, {"start": 20, "end": None}, None]


def test_trials_are_in_the_order_of_their_numbers_and_not_each_others_peers() -> None:
    spans = [
        run("master-replica-0", 5 + 40 * trial, 40 + 40 * trial, trial_id=str(trial)) for trial in (10, 9)
    ]

    lanes = timeline_view(make_row(), spans, after(900))["lanes"]

    assert [(lane["trial"], lane["late"]) for lane in lanes] == [("9", None), ("10", None)]


def test_there_are_so_many_lanes_and_no_more() -> None:
    spans = [run("master-replica-0", 5, 9, trial_id=str(trial)) for trial in range(MAX_LANES + 7)]

    view = timeline_view(make_row(), spans, after(900))

    assert len(view["lanes"]) == MAX_LANES
    assert view["leftOut"] == 7


def test_pulls_have_their_image() -> None:
    span = Span(kind=SpanKind.PULL, name="registry.test/p/trainer:1", start_time=after(2), end_time=after(4))

    assert timeline_view(make_row(), [span], after(30))["pulls"] == [
        {
            "image": "registry.test/p/trainer:1",
            "trial": "",
            "start": seconds(NOON, 2),
            "end": seconds(NOON, 4),
        }
    ]
