"""
The limiter, with the lines' own clock.

Every loss is stated, and the end is always there.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from container_engines.base import LogLine, LogStream
from training_service.intake.log_limiter import (
    TAIL_BYTES,
    WINDOW_SECONDS,
    JobBudget,
    Kept,
    LogLimit,
    LogLimiter,
    Loss,
    PlacedLine,
)

SECOND_NS = 10**9
SMALL = LogLimit(lines_per_second=1, bytes_per_second=50, tail_lines=4, job_bytes=10**9)


def make_lines(gaps_ns: Sequence[int], sizes: Sequence[int]) -> list[PlacedLine]:
    lines = []
    at_ns = 0
    for place, (gap_ns, size) in enumerate(zip(gaps_ns, sizes, strict=True)):
        at_ns += gap_ns
        line = LogLine(timestamp_ns=at_ns, stream=LogStream.STDOUT, text="x" * size)
        lines.append(PlacedLine(insert_id=f"{at_ns:020d}-{place:06d}", line=line, size=size))
    return lines


def run(limit: LogLimit, lines: Sequence[PlacedLine], pauses: Sequence[bool] = ()) -> list[Kept]:
    limiter = LogLimiter(limit, JobBudget(limit.job_bytes))
    kept: list[Kept] = []
    for place, line in enumerate(lines):
        kept += limiter.offer(line)
        if place < len(pauses) and pauses[place]:
            kept += limiter.pause()
    return kept + limiter.end()


@st.composite
def outputs(draw: st.DrawFn) -> list[PlacedLine]:
    gaps = draw(st.lists(st.sampled_from([0, 1000, SECOND_NS // 3, 4 * SECOND_NS]), max_size=80))
    sizes = draw(st.lists(st.sampled_from([0, 1, 40, 300]), min_size=len(gaps), max_size=len(gaps)))
    return make_lines(gaps, sizes)


limits = st.builds(
    LogLimit,
    lines_per_second=st.integers(1, 3),
    bytes_per_second=st.integers(1, 100),
    tail_lines=st.integers(1, 5),
    job_bytes=st.sampled_from([100, 2000, 10**9]),
)


@given(limits, outputs(), st.lists(st.booleans(), max_size=80))
def test_every_line_is_kept_once_or_counted_in_its_place(
    limit: LogLimit, lines: list[PlacedLine], pauses: list[bool]
) -> None:
    places = {line.insert_id: place for place, line in enumerate(lines)}

    next_place = 0
    for one in run(limit, lines, pauses):
        if isinstance(one, PlacedLine):
            assert places[one.insert_id] == next_place
            next_place += 1
        elif not one.is_announcement:
            dropped = lines[next_place : next_place + one.lines]
            assert one.size == sum(line.size for line in dropped)
            assert (one.first_ns, one.last_ns) == (
                dropped[0].line.timestamp_ns,
                dropped[-1].line.timestamp_ns,
            )
            next_place += one.lines
    assert next_place == len(lines)


@given(limits, outputs(), st.lists(st.booleans(), max_size=80))
def test_what_is_stored_has_insert_ids_in_its_order(
    limit: LogLimit, lines: list[PlacedLine], pauses: list[bool]
) -> None:
    ids = [one.insert_id for one in run(limit, lines, pauses)]

    assert ids == sorted(set(ids))


@given(limits, outputs())
def test_the_end_is_kept(limit: LogLimit, lines: list[PlacedLine]) -> None:
    kept = [one for one in run(limit, lines) if isinstance(one, PlacedLine)]

    end = lines[-limit.tail_lines :]
    assert kept[len(kept) - len(end) :] == end


@given(limits, outputs())
def test_no_ten_seconds_keep_more_than_the_limits(limit: LogLimit, lines: list[PlacedLine]) -> None:
    kept = [one for one in run(limit, lines) if isinstance(one, PlacedLine)]

    most = 2 * (
        limit.lines_per_second * WINDOW_SECONDS + limit.tail_lines
    )  # any ten seconds touch two windows
    for first in kept:
        end_ns = first.line.timestamp_ns + WINDOW_SECONDS * SECOND_NS
        assert sum(first.line.timestamp_ns <= one.line.timestamp_ns < end_ns for one in kept) <= most


@given(limits, outputs())
def test_the_job_keeps_no_more_than_its_bytes_and_its_end(limit: LogLimit, lines: list[PlacedLine]) -> None:
    kept = [one for one in run(limit, lines) if isinstance(one, PlacedLine)]

    spent = [one for one in run(limit, lines) if isinstance(one, Loss) and one.is_announcement]
    if spent:
        before = sum(one.size for one in kept if one.insert_id < spent[0].insert_id)
        # Ends of earlier windows are kept beyond the limits.
        windows = len(lines) // 4 + 1
        assert before <= limit.job_bytes + windows * limit.tail_lines * 300
        assert len([one for one in kept if one.insert_id > spent[0].insert_id]) <= limit.tail_lines


def test_what_is_within_the_limits_is_untouched() -> None:
    lines = make_lines([SECOND_NS] * 100, [50] * 100)

    assert run(SMALL, lines) == lines


def test_a_flood_keeps_its_beginning_and_its_end_and_says_what_is_between() -> None:
    lines = make_lines([1000] * 100, [10] * 100)

    kept = run(SMALL, lines)

    assert kept[:10] == lines[:10]
    assert kept[11:] == lines[96:]
    (loss,) = [one for one in kept if isinstance(one, Loss)]
    assert (loss.lines, loss.size, loss.is_job_limit) == (86, 860, False)
    assert (loss.first_ns, loss.last_ns) == (11_000, 96_000)


def test_a_pause_shows_the_end_without_opening_the_window_again() -> None:
    lines = make_lines([1000] * 40, [10] * 40)
    limiter = LogLimiter(SMALL, JobBudget(SMALL.job_bytes))
    for line in lines[:20]:
        limiter.offer(line)

    shown = limiter.pause()
    after = [one for line in lines[20:] for one in limiter.offer(line)]

    assert shown[1:] == lines[16:20]
    assert after == []
    assert limiter.end()[1:] == lines[36:]


def test_long_lines_at_the_end_do_not_fill_the_memory() -> None:
    limit = LogLimit(lines_per_second=1, bytes_per_second=1, tail_lines=10**6)
    lines = make_lines([1000] * 40, [TAIL_BYTES // 3] * 40)

    kept = run(limit, lines)

    assert [one for one in kept if isinstance(one, PlacedLine)] == lines[-3:]


def test_the_last_line_is_kept_however_long_it_is() -> None:
    lines = make_lines([1000] * 3, [TAIL_BYTES * 2] * 3)

    assert run(SMALL, lines)[-1] == lines[-1]


def test_a_spent_job_says_so_at_once_and_keeps_the_end() -> None:
    limit = LogLimit(tail_lines=2, job_bytes=100)
    lines = make_lines([20 * SECOND_NS] * 30, [10] * 30)
    limiter = LogLimiter(limit, JobBudget(limit.job_bytes))

    while_it_runs = [one for line in lines for one in [*limiter.offer(line), *limiter.pause()]]

    assert while_it_runs[:10] == lines[:10]
    (announcement,) = while_it_runs[10:]
    assert isinstance(announcement, Loss)
    assert announcement.is_announcement
    loss, *end = limiter.end()
    assert isinstance(loss, Loss)
    assert (loss.lines, loss.is_job_limit) == (18, True)
    assert end == lines[-2:]


def test_replicas_share_the_bytes_of_their_job() -> None:
    budget = JobBudget(100)
    first, second = LogLimiter(SMALL, budget), LogLimiter(SMALL, budget)
    lines = make_lines([1000] * 2, [60] * 2)

    assert first.offer(lines[0]) == [lines[0]]
    (announcement,) = second.offer(lines[1])
    assert isinstance(announcement, Loss)


def test_a_clock_that_is_set_back_does_not_hold_the_window() -> None:
    early, late = make_lines([SECOND_NS] * 20, [10] * 20), make_lines([3600 * SECOND_NS] * 1, [10])

    kept = run(SMALL, late + early)

    assert [one for one in kept if isinstance(one, PlacedLine)] == late + early
