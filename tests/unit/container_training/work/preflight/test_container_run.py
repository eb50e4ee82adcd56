"""Lines out of pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.work.preflight.container_run import RunLimits
from container_training.work.preflight.line_splitter import MAX_LINE_CHARACTERS, LineSplitter
from training_api.errors import InvalidJobSpec


@given(
    text=st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=80),
    size=st.integers(1, 7),
)
def test_lines_do_not_depend_on_how_the_bytes_were_cut(text: str, size: int) -> None:
    splitter = LineSplitter()
    data = text.encode()

    lines = [
        line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])
    ]
    lines += splitter.finish()

    expected = text.split("\n")
    assert lines == (expected if expected[-1] else expected[:-1])


def test_a_redrawn_line_counts_as_last_drawn() -> None:
    assert LineSplitter().feed(b"1%\r50%\r100%\r\nnext\n") == ["100%", "next"]


def test_a_line_without_an_end_is_handed_on_in_pieces() -> None:
    assert LineSplitter().feed(b"x" * (MAX_LINE_CHARACTERS + 1)) == ["x" * (MAX_LINE_CHARACTERS + 1)]


@pytest.mark.parametrize("limits", [{"timeout_seconds": 0}, {"timeout_seconds": 1, "pids": 0}])
def test_limits_that_leave_nothing_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidJobSpec, match="must be"):
        RunLimits(**limits)  # type: ignore[arg-type]
