"""From a replica's status to its cause."""

from __future__ import annotations

import pytest

from training_api.causes import Cause
from training_api.job.exit_causes import exit_cause, exit_meaning


@pytest.mark.parametrize(
    ("exit_code", "cause"),
    [
        (1, Cause.PROGRAM_ERROR),
        (65, Cause.PROGRAM_ERROR),
        (126, Cause.COMMAND),
        (127, Cause.COMMAND),
        (137, Cause.INTERRUPTED),
        (143, Cause.INTERRUPTED),
    ],
)
def test_a_status_has_its_cause(exit_code: int, cause: Cause) -> None:
    assert exit_cause(exit_code, out_of_memory=False, uses_packages=False) is cause


@pytest.mark.parametrize("exit_code", [1, 137])
def test_a_full_memory_outweighs_the_status(exit_code: int) -> None:
    assert exit_cause(exit_code, out_of_memory=True, uses_packages=True) is Cause.OUT_OF_MEMORY


@pytest.mark.parametrize("exit_code", [65, 66, 69])
def test_a_job_of_packages_has_statuses_of_its_own(exit_code: int) -> None:
    assert exit_cause(exit_code, out_of_memory=False, uses_packages=True) is Cause.PACKAGE
    assert exit_meaning(Cause.PACKAGE, exit_code)


def test_a_status_of_the_program_means_what_the_program_says() -> None:
    assert exit_meaning(Cause.PROGRAM_ERROR, 3) == ""
    assert exit_meaning(Cause.COMMAND, None) == ""
