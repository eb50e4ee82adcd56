"""When a fault happens: to which calls, how often, for how long, to what share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from training_service.faults.board import FaultBoard
from training_service.faults.rules import METHODS, Call, Fault, FaultKind, call_of, is_to_be_lost

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
GET = Call("jobs.get", "a_job")


class Board(FaultBoard):
    """With a clock and a die of the test's."""

    def __init__(self) -> None:
        self.now = NOON
        self.die = 0.0
        super().__init__(lambda: self.now, lambda: self.die)

    def codes(self, call: Call = GET) -> list[int | None]:
        return [fault.code for fault in self.take_for_call(call)]


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


def test_a_fault_happens_to_a_share_of_the_calls() -> None:
    board = Board()
    board.set(Fault(kind=FaultKind.ERROR, code=503, share=0.25))

    for board.die, codes in ((0.0, [503]), (0.24, [503]), (0.25, []), (0.99, [])):
        assert board.codes() == codes


def test_a_fault_is_over_after_its_times_or_its_seconds() -> None:
    board = Board()
    board.set(Fault(kind=FaultKind.ERROR, code=500, times=2))
    board.set(Fault(kind=FaultKind.ERROR, code=503, for_seconds=60))

    found = [board.codes() for _ in range(3)]
    board.now += timedelta(seconds=60)

    assert found == [[500], [500], [503]]
    assert board.codes() == []
    assert [(each.happened, each.is_over) for each in board.listed()] == [(2, True), (1, True)]


def test_faults_of_different_kinds_happen_to_one_call() -> None:
    board = Board()
    board.set(Fault(kind=FaultKind.DELAY, seconds=1))
    board.set(Fault(kind=FaultKind.DROP))

    assert {fault.kind for fault in board.take_for_call(GET)} == {FaultKind.DELAY, FaultKind.DROP}


def test_a_fault_of_a_job_does_not_meet_calls_that_name_none() -> None:
    board = Board()
    board.set(Fault(kind=FaultKind.ERROR, code=500, job_id="a_*"))

    assert board.codes(Call("jobs.list")) == []
    assert board.codes(Call("jobs.get", "another")) == []
    assert board.codes() == [500]


@pytest.mark.parametrize(
    ("replica", "age", "is_lost"),
    [("worker-replica-1", 30, True), ("worker-replica-1", 29, False), ("worker-replica-0", 99, False)],
)
def test_a_replica_is_lost_so_long_after_its_start(replica: str, age: float, is_lost: bool) -> None:
    fault = Fault(kind=FaultKind.LOSE_REPLICA, replica="worker-replica-1", seconds=30)

    assert is_to_be_lost(fault, replica, NOON, NOON + timedelta(seconds=age)) is is_lost
    assert not is_to_be_lost(fault, replica, None, NOON)
