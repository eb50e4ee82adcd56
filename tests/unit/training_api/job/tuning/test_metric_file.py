"""The file of cloudml-hypertune: every report once, in its order, whenever it is read."""

from __future__ import annotations

import json
import math
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.job.tuning.measurement import Identity, Report
from training_api.job.tuning.metric_file import WINDOW_REPORTS, MetricFile


def line_of(report: Report) -> bytes:
    """
    Return the line that the package writes.

    ``hypertune.py``: sorted keys, step and value as text.
    """
    entry = {
        "timestamp": report.reported_us / 1e6,
        "trial": "1",
        report.tag: str(report.value),
        "global_step": str(report.step),
        "checkpoint_path": "",
    }
    return json.dumps(entry, sort_keys=True).encode() + b"\n"


def identities(reports: list[Report]) -> list[Identity]:
    return [report.identity for report in reports]


@st.composite
def report_sequences(draw: st.DrawFn) -> list[Report]:
    """
    Up to 400 reports on a clock that may stand still.

    Equal reports come in pairs at most.
    """
    tags = st.sampled_from(["loss", "accuracy", "training/hptuning/metric"])
    values = st.sampled_from([0.0, -0.0, 0.5, math.nan, math.inf, -math.inf, 1e-300, 0.1])
    drawn = draw(
        st.lists(st.tuples(tags, st.integers(0, 3), values, st.sampled_from([0, 0, 1])), max_size=400)
    )
    at = 1_700_000_000_000_000
    reports: list[Report] = []
    seen: dict[Identity, int] = {}
    for tag, step, value, passed in drawn:
        at += passed
        report = Report(tag=tag, step=step, value=value, reported_us=at)
        if seen.get(report.identity, 0) == 2:
            at += 1
            report = Report(tag=tag, step=step, value=value, reported_us=at)
        seen[report.identity] = seen.get(report.identity, 0) + 1
        reports.append(report)
    return reports


@given(report_sequences(), st.lists(st.integers(0, WINDOW_REPORTS - 1), max_size=60), st.data())
def test_every_report_is_read_once_whatever_the_moments_of_reading(
    reports: list[Report], pauses: list[int], data: st.DataObject
) -> None:
    queue: deque[bytes] = deque(maxlen=WINDOW_REPORTS)
    file = MetricFile()
    read: list[Report] = []
    since = 0
    pauses = pauses or [WINDOW_REPORTS - 1]

    for written, report in enumerate(reports, 1):
        queue.append(line_of(report))
        since += 1
        content = b"".join(queue)
        if data.draw(st.booleans()) if len(reports) < 30 else written % 7 == 0:
            # The file is cut short and written anew: a reader may see any beginning of it.
            read += file.look(content[: len(content) * (written % 11) // 11]).new
        if since > pauses[written % len(pauses)] or since == WINDOW_REPORTS - 1:
            read += file.look(content).new
            since = 0
    last = file.look(b"".join(queue))
    read += last.new

    assert identities(read) == identities(reports)
    assert not last.has_gap


@given(report_sequences(), st.integers(1, 90))
def test_what_was_stored_is_recognised_by_the_next_process(reports: list[Report], every: int) -> None:
    queue: deque[bytes] = deque(maxlen=WINDOW_REPORTS)
    read: list[Report] = []

    for place, report in enumerate(reports):
        queue.append(line_of(report))
        if place % every == 0:
            read += MetricFile(known=read).look(b"".join(queue)).new
    read += MetricFile(known=read).look(b"".join(queue)).new

    assert identities(read) == identities(reports)


def make_reports(count: int, first: int = 0) -> list[Report]:
    return [
        Report(tag="loss", step=place, value=place / 7, reported_us=1_700_000_000_000_000 + place)
        for place in range(first, first + count)
    ]


def content_of(reports: list[Report]) -> bytes:
    return b"".join(map(line_of, reports))


def test_a_full_window_that_shares_nothing_tells_of_a_gap() -> None:
    file = MetricFile()
    file.look(content_of(make_reports(100)))

    look = file.look(content_of(make_reports(100, first=250)))

    assert look.has_gap
    assert identities(list(look.new)) == identities(make_reports(100, first=250))


def test_a_reporter_that_is_made_anew_for_each_report_loses_nothing() -> None:
    file = MetricFile()
    reports = make_reports(250)

    looks = [file.look(content_of([report])) for report in reports]

    assert [look.new[0].step for look in looks] == list(range(250))
    assert not any(look.has_gap for look in looks)


def test_an_older_window_that_is_read_again_adds_nothing() -> None:
    reports = make_reports(300)
    file = MetricFile(known=reports)

    assert file.look(content_of(reports[20:120])).new == ()
    assert file.look(content_of(reports[150:170])).new == ()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"no json",
        b"\xff\xfe\x00",
        b"[" * 8000,
        b'{"a":' * 1600,
        b'{"loss": "1", "global_step": "0", "timestamp": NaN, "trial": "0"}',
        b'{"loss": "1", "global_step": "0", "timestamp": 1e300, "trial": "0"}',
        b'{"loss": "1", "global_step": "0", "timestamp": -1, "trial": "0"}',
        b'{"loss": "1", "global_step": "0", "trial": "0"}',
        b'{"loss": "1", "accuracy": "1", "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"loss": "one", "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"loss": true, "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"loss": [1], "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"loss": "1", "global_step": "1.5", "timestamp": 1, "trial": "0"}',
        b'{"loss": "1", "global_step": "99999999999999999999", "timestamp": 1, "trial": "0"}',
        b'{"loss": "1", "global_step": ' + b"9" * 5000 + b', "timestamp": 1, "trial": "0"}',
        b'{"loss": ' + b"9" * 400 + b', "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"": "1", "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"' + b"x" * 257 + b'": "1", "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"lo\\u0000ss": "1", "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"lo\\ud800ss": "1", "global_step": "0", "timestamp": 1, "trial": "0"}',
        b'{"loss": "1", "global_step": "0", "timestamp": 1, "trial": "' + b"x" * 9000 + b'"}',
    ],
    ids=lambda line: repr(line[:40]),
)
def test_what_is_no_report_is_counted_once_and_left_out(line: bytes) -> None:
    file = MetricFile()
    good = content_of(make_reports(1))

    look = file.look(line + b"\n" + good)
    again = file.look(line + b"\n" + good)

    assert (len(look.new), look.broken) == (1, 1)
    assert (len(again.new), again.broken) == (0, 0)


@given(st.binary(max_size=2000))
def test_no_content_raises(content: bytes) -> None:
    MetricFile().look(content)


@pytest.mark.parametrize(("text", "value"), [("inf", math.inf), ("-inf", -math.inf), ("-0.0", 0.0)])
def test_numbers_are_read_as_python_writes_them(text: str, value: float) -> None:
    line = json.dumps({"loss": text, "global_step": "7", "timestamp": 1.5, "trial": "0"}).encode() + b"\n"

    (report,) = MetricFile().look(line).new

    assert report == Report(tag="loss", step=7, value=value, reported_us=1_500_000)


def test_nan_is_read_as_nan() -> None:
    line = b'{"loss": "nan", "global_step": "7", "timestamp": 1.5, "trial": "0"}\n'

    (report,) = MetricFile().look(line).new

    assert math.isnan(report.value)
