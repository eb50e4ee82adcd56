"""Long steps as lines: what is done, and how it ended."""

from __future__ import annotations

import io

import pytest

from local_stack.processes.progress import Progress


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_a_step_is_said_before_it_runs_and_when_it_is_done(stream: io.StringIO) -> None:
    progress = Progress(stream=stream)

    with progress.step("pulling the image"):
        assert stream.getvalue() == "pulling the image ...\n"

    assert stream.getvalue().splitlines()[1].startswith("pulling the image: done in ")


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_step_that_fails_or_is_interrupted_is_said_and_goes_on_to_fail(
    stream: io.StringIO, error: BaseException
) -> None:
    with pytest.raises(type(error)), Progress(stream=stream).step("building"):
        raise error

    assert stream.getvalue().splitlines()[-1].startswith("building: failed after ")


def test_a_quiet_progress_says_nothing(stream: io.StringIO) -> None:
    with Progress(stream=stream, quiet=True).step("building"):
        pass

    assert stream.getvalue() == ""


def test_lines_go_where_results_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    Progress().say("a line")

    assert capsys.readouterr() == ("", "a line\n")
