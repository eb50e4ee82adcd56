"""When a fault happens: to which calls, how often, for how long, to what share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from training_service.faults.board import FaultBoard
from training_service.faults.rules import Call, Fault, FaultKind

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
