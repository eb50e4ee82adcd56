"""What a failed job of Vertex AI says of another try; the texts are Google's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.fake_service import make_job
from training_api.causes import Cause
from training_api.job.newer_machines import VERTEX_MACHINE_TYPES
from training_api.states import JobState
from training_api.vertex_jobs.failures import (
    Failure,
    failure_of,
    next_larger,
    reason_of,
    region_after,
    with_advice,
)

LOW = "Replicas low on memory: workerpool1. Specify a machine with larger memory and try again."


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (
            "The replica workerpool0-0 exited with a non-zero status of 1. To find out more ...",
            Failure.TRAINER,
        ),
        (LOW, Failure.MEMORY),
        (
            "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
            Failure.MEMORY,
        ),
        (
            "Resources are insufficient in region: us-central1. Try a different region or use a different accelerator.",
            Failure.STOCKOUT,
        ),
        ("Internal error occurred for the current attempt.", Failure.INTERNAL),
        ("CANCELED", Failure.TRAINER),
        ("", Failure.TRAINER),
    ],
)
def test_the_words_tell_whose_fault_it_is(message: str, failure: Failure) -> None:
    assert failure_of(message) is failure
    assert failure.may_pass == (failure in ("stockout", "internal"))


def spec(*machines: str) -> dict[str, Any]:
    return {"workerPoolSpecs": [{"machineSpec": {"machineType": name}} for name in machines]}


def test_who_runs_out_of_memory_is_told_the_next_machine_of_the_pool_that_did() -> None:
    assert with_advice(LOW, spec("n1-standard-4", "n1-standard-8")) == (
        f"{LOW} After n1-standard-8 the next machine with more memory is n1-highmem-8."
    )


@pytest.mark.parametrize(
    ("message", "job_spec"),
    [
        ("exited with a non-zero status of 1", spec("n1-standard-4", "n1-standard-4")),
        (LOW, spec("n1-standard-4")),
        (LOW, spec("n1-standard-4", "a-machine-of-tomorrow")),
        (LOW, {}),
    ],
)
def test_where_nothing_is_known_nothing_is_added(message: str, job_spec: dict[str, Any]) -> None:
    assert with_advice(message, job_spec) == message


def test_the_next_machine_is_larger_in_memory_and_smaller_in_nothing() -> None:
    without = []
    for machine in VERTEX_MACHINE_TYPES.values():
        larger = next_larger(machine)
        if larger is None:
            without.append(machine.name)
            continue
        assert larger.memory_bytes > machine.memory_bytes
        assert larger.cpus >= machine.cpus
        assert (larger.gpus, larger.gpu) == (machine.gpus, machine.gpu)
        assert larger.name.partition("-")[0] == machine.name.partition("-")[0]

    assert "n1-highmem-96" in without
    assert "n1-standard-4" not in without


@pytest.mark.parametrize(
    ("tried", "message", "expected"),
    [
        ("a", "Resources are insufficient in region: a.", "b"),
        ("c", "Resources are insufficient in region: c.", "a"),
        ("b", "Internal error occurred. Please retry.", "c"),
        ("b", "The replica workerpool0-0 exited with a non-zero status of 1.", "b"),
        ("b", "", "b"),
        ("elsewhere", "Resources are insufficient in region: elsewhere.", "a"),
    ],
)
def test_another_region_is_tried_where_the_first_was_at_fault(
    tried: str, message: str, expected: str
) -> None:
    ended = make_job(training_input={"region": tried}, error_message=message)

    assert region_after(["a", "b", "c"], ended) == expected
    assert region_after([], ended) == ""


@pytest.mark.parametrize(
    ("message", "cause", "replica", "code"),
    [
        (
            "The replica workerpool0-0 exited with a non-zero status of 1. To find",
            Cause.PROGRAM_ERROR,
            "workerpool0-0",
            1,
        ),
        (
            "The replica workerpool1-2 exited with a non-zero status of 128. Termination reason: StartError. \n",
            Cause.COMMAND,
            "workerpool1-2",
            128,
        ),
        (LOW, Cause.OUT_OF_MEMORY, "workerpool1", None),
        (
            "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
            Cause.OUT_OF_MEMORY,
            "workerpool0-0",
            None,
        ),
        ("Internal error occurred for the current attempt.", Cause.UNKNOWN, "", None),
        ("", Cause.UNKNOWN, "", None),
    ],
)
def test_the_words_tell_people_why_a_job_failed(
    message: str, cause: Cause, replica: str, code: int | None
) -> None:
    reason = reason_of(JobState.FAILED, message)

    assert reason is not None
    assert (reason.cause, reason.replica, reason.exit_code) == (cause, replica, code)


def test_only_jobs_that_failed_or_were_cancelled_have_a_reason() -> None:
    cancelled = reason_of(JobState.CANCELLED, "CANCELED")

    assert cancelled is not None
    assert cancelled.cause is Cause.CANCELLED
    assert reason_of(JobState.RUNNING, "") is None
    assert reason_of(None, "") is None
