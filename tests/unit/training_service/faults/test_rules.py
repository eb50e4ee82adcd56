"""What can be made to go wrong: to which calls a rule applies, and to which jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.discovery import document
from training_api.errors import InvalidRequest
from training_service.faults.rules import (
    METHODS,
    Call,
    Fault,
    FaultKind,
    call_of,
    check,
    hits_call,
    is_over,
    is_to_be_lost,
    keeps_preparing,
)

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
GET = Call("jobs.get", "a_job")


def test_every_method_that_a_fault_can_name_is_one_of_the_api() -> None:
    jobs = document("ml.v1")["resources"]["projects"]["resources"]["jobs"]["methods"]

    assert METHODS - {"entries.list", "projects.getConfig"} == {f"jobs.{name}" for name in jobs}


@pytest.mark.parametrize(
    ("request_line", "call"),
    [
        ("GET /v1/projects/p/jobs", Call("jobs.list")),
        ("POST /v1/projects/p/jobs", Call("jobs.create")),
        ("GET /v1/projects/p/jobs/a_job", GET),
        ("PATCH /v1/projects/p/jobs/a_job", Call("jobs.patch", "a_job")),
        ("POST /v1/projects/p/jobs/a_job:cancel", Call("jobs.cancel", "a_job")),
        ("POST /v2/entries:list", Call("entries.list")),
        ("GET /v1/projects/p:getConfig", Call("projects.getConfig")),
        ("GET /health", None),
        ("GET /metrics", None),
        ("POST /faults", None),
        ("DELETE /faults/1", None),
        ("DELETE /v1/projects/p/jobs/a_job", None),
        ("GET /v1/projects/p/jobs/a_job:cancel", None),
    ],
)
def test_a_request_is_known_by_its_method_of_the_api(request_line: str, call: Call | None) -> None:
    assert call_of(*request_line.split()) == call
    assert call is None or call.method in METHODS


@pytest.mark.parametrize(
    ("replica", "age", "is_lost"),
    [("worker-replica-1", 30, True), ("worker-replica-1", 29, False), ("worker-replica-0", 99, False)],
)
def test_a_replica_is_lost_so_long_after_its_start(replica: str, age: float, is_lost: bool) -> None:
    fault = Fault(kind=FaultKind.LOSE_REPLICA, replica="worker-replica-1", seconds=30)

    assert is_to_be_lost(fault, replica, NOON, NOON + timedelta(seconds=age)) is is_lost
    assert not is_to_be_lost(fault, replica, None, NOON)


@pytest.mark.parametrize(
    ("preparing_at", "keeps"),
    [
        (None, False),
        (NOON, True),
        (NOON - timedelta(seconds=9.9), True),
        (NOON - timedelta(seconds=10), False),
    ],
)
def test_a_job_prepares_for_so_long(preparing_at: datetime | None, keeps: bool) -> None:
    fault = Fault(kind=FaultKind.SLOW_PREPARING, seconds=10)

    assert keeps_preparing(fault, preparing_at, NOON) is keeps


@pytest.mark.parametrize(
    ("fault", "is_hit"),
    [
        (Fault(kind=FaultKind.DROP), True),
        (Fault(kind=FaultKind.DROP, methods=["jobs.get"]), True),
        (Fault(kind=FaultKind.DROP, methods=["jobs.list"]), False),
        (Fault(kind=FaultKind.DROP, job_id="a_*"), True),
        (Fault(kind=FaultKind.DROP, job_id="A_*"), False),
        (Fault(kind=FaultKind.DROP, share=0.5), True),
        (Fault(kind=FaultKind.DROP, share=0.4), False),
        (Fault(kind=FaultKind.STOCK_OUT), False),
    ],
)
def test_a_call_is_hit_by_kind_method_job_and_chance(fault: Fault, is_hit: bool) -> None:
    assert hits_call(fault, GET, chance=0.45) is is_hit


@pytest.mark.parametrize(
    ("fault", "happened", "seconds", "over"),
    [
        (Fault(kind=FaultKind.DROP), 10**6, 10**6, False),
        (Fault(kind=FaultKind.DROP, times=2), 1, 0, False),
        (Fault(kind=FaultKind.DROP, times=2), 2, 0, True),
        (Fault(kind=FaultKind.DROP, for_seconds=60), 0, 59.9, False),
        (Fault(kind=FaultKind.DROP, for_seconds=60), 0, 60, True),
        (Fault(kind=FaultKind.DROP, for_seconds=0), 0, 0, True),
    ],
)
def test_a_fault_is_over_after_its_times_or_its_seconds(
    fault: Fault, happened: int, seconds: float, over: bool
) -> None:
    assert is_over(fault, happened=happened, age=timedelta(seconds=seconds)) is over


def test_everything_that_is_wrong_with_a_fault_is_said_at_once() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(Fault(kind=FaultKind.ERROR, seconds=3, methods=["jobs.get", "jobs.fly"]))

    assert [each.field for each in caught.value.violations] == ["code", "seconds", "methods"]


def test_faults_of_jobs_may_name_the_job_and_an_end() -> None:
    check(Fault(kind=FaultKind.STOCK_OUT, job_id="a_*", for_seconds=60))
