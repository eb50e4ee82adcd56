"""Which errors may pass by themselves."""

from __future__ import annotations

import pytest

from training_api import errors
from training_api.retrying import ENGINE_MAY_DO_LATER, is_worth_a_retry


@pytest.mark.parametrize(
    "kind", [*ENGINE_MAY_DO_LATER, errors.DiskFull, errors.PushFailed, errors.TransportError]
)
def test_what_may_pass_is_worth_a_retry(kind: type[errors.TrainingError]) -> None:
    assert is_worth_a_retry(kind("later"))


@pytest.mark.parametrize(
    "kind", [errors.EngineError, errors.ImageNotFound, errors.BuildFailed, errors.ImageTestFailed]
)
def test_what_is_final_is_not(kind: type[errors.TrainingError]) -> None:
    assert not is_worth_a_retry(kind("never"))


def test_a_full_disk_is_final_to_a_job_and_worth_a_retry_of_a_task() -> None:
    """A task's retry comes after minutes, and it holds nothing meanwhile."""
    assert errors.DiskFull not in ENGINE_MAY_DO_LATER
    assert is_worth_a_retry(errors.DiskFull("full"))
