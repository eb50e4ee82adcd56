"""What a person reads when a part of the stack fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_stack.errors import LocalStackError, PartFailed


@pytest.mark.parametrize(
    ("tail", "shown"), [("no space left\n\n", "no space left"), ("", "(empty)"), (" \n", "(empty)")]
)
def test_a_part_that_failed_shows_the_end_of_its_log(tail: str, shown: str) -> None:
    error = PartFailed("registry", "ended right after each start", Path("/s/registry.log"), tail)

    assert str(error) == (
        f"registry ended right after each start; the end of its log /s/registry.log:\n{shown}"
    )
    assert (error.part, isinstance(error, LocalStackError)) == ("registry", True)


def test_a_part_without_a_log_says_what_is_wrong_and_no_more() -> None:
    assert str(PartFailed("docker build", "failed: no network")) == "docker build failed: no network"
