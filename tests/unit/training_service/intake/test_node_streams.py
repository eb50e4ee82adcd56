"""The streams of many machines, and what is taken from their agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from container_engines.base import StillStarting
from training_api.errors import EngineUnavailable
from training_api.job.tuning.measurement import Report
from training_service.intake.metric_stream import KnownReports, PlacedReport, StreamName
from training_service.intake.node_streams import NodeStreams

STREAM = StreamName(job_uid="job", task_name="master-replica-0", source="0.0")
REPORT = PlacedReport(sequence=0, report=Report(tag="accuracy", step=1, value=0.5, reported_us=1))


class Sink:
    """Keeps what is stored."""

    def __init__(self) -> None:
        self.stored: list[PlacedReport] = []
        self.warnings: list[str] = []

    def known(self, stream: StreamName) -> KnownReports:
        return KnownReports(next_sequence=len(self.stored))

    def store(self, new: Mapping[StreamName, Sequence[PlacedReport]]) -> Mapping[StreamName, int]:
        self.stored += [one for reports in new.values() for one in reports]
        return {stream: len(reports) for stream, reports in new.items()}

    def warn(self, stream: StreamName, message: str) -> None:
        self.warnings.append(message)


class Board:
    """The streams of a service whose time is the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.active: set[str] = {"job"}
        self.drains = 0
        self.sink = Sink()
        self.streams = NodeStreams(
            lambda machine: f"/folder/{machine}",
            self.sink,
            self._active_uids,
            self._count,
            lambda: self.now,
            open_seconds=0,
        )
        self.streams.start(())

    def _active_uids(self, among: Collection[str]) -> Collection[str]:
        return self.active & set(among)

    def _count(self) -> None:
        self.drains += 1


@pytest.fixture
def board() -> Board:
    return Board()


def test_a_run_starts_when_the_agent_of_its_machine_has_made_the_folder(board: Board) -> None:
    with pytest.raises(StillStarting, match="machine one has not made"):
        board.streams.open(STREAM, "one")
    assert board.streams.orders("one", []).streams == {STREAM: False}
    assert board.streams.orders("two", []).streams == {}
    board.streams.hear("two", [STREAM], [])
    with pytest.raises(StillStarting):
        board.streams.open(STREAM, "one")
    board.streams.hear("one", [STREAM], [])

    assert board.streams.open(STREAM, "one") == "/folder/one/job/master-replica-0-0.0/mount"


def test_a_start_says_that_an_agent_is_away_and_another_machine_may_do(board: Board) -> None:
    with pytest.raises(StillStarting):
        board.streams.open(STREAM, "one")
    board.now = 30.0

    with pytest.raises(EngineUnavailable, match="the node agent of machine one does not answer") as refused:
        board.streams.open(STREAM, "one")
    assert not isinstance(refused.value, StillStarting)
    with pytest.raises(StillStarting, match="machine two"):
        board.streams.open(STREAM, "two")
    assert board.streams.orders("one", []).streams == {}


def test_reports_are_taken_only_from_the_machine_that_has_the_stream(board: Board) -> None:
    board.streams.follow(STREAM, "one", has_ended=False)

    assert board.streams.store("two", {STREAM: [REPORT]}) == {STREAM: 0}
    assert board.streams.known("two", STREAM) is None
    board.streams.warn("two", STREAM, "message")
    assert (board.sink.stored, board.sink.warnings) == ([], [])
    assert board.streams.store("one", {STREAM: [REPORT]}) == {STREAM: 1}
    assert board.sink.stored == [REPORT]
    assert board.streams.known("one", STREAM) == KnownReports(next_sequence=1)


def test_a_stream_is_drained_when_its_agent_says_so_after_its_end(board: Board) -> None:
    board.streams.follow(STREAM, "one", has_ended=False)
    board.streams.hear("one", [], [STREAM])
    assert not board.streams.drained
    before = board.streams.version("one")

    board.streams.follow(STREAM, "one", has_ended=True)
    assert board.streams.version("one") != before
    assert board.streams.orders("one", []).streams == {STREAM: True}
    board.streams.hear("two", [], [STREAM])
    assert not board.streams.drained
    board.streams.hear("one", [], [STREAM])

    assert (board.streams.drained, board.drains) == ({STREAM}, 1)
    assert board.streams.orders("one", []).streams == {}


def test_the_end_of_a_job_waits_for_an_agent_that_is_away_but_not_for_ever(board: Board) -> None:
    board.streams.follow(STREAM, "one", has_ended=True)
    board.now = 110.0
    board.streams.follow(STREAM, "one", has_ended=True)
    assert not board.streams.drained
    board.now = 121.0
    board.streams.hear("one", [], [])
    board.streams.follow(STREAM, "one", has_ended=True)
    assert not board.streams.drained, "the agent has answered just now"

    board.now = 150.0
    board.streams.follow(STREAM, "one", has_ended=True)
    board.streams.follow(STREAM, "one", has_ended=True)

    assert board.streams.drained == {STREAM}
    assert len(board.sink.warnings) == 1
    assert "may be missing: the node agent of machine one" in board.sink.warnings[0]


def test_folders_are_removed_when_their_job_has_ended_and_is_forgotten(board: Board) -> None:
    board.streams.follow(STREAM, "one", has_ended=True)

    assert board.streams.orders("one", ["job", "old"]).remove == ["old"]
    board.active.clear()
    assert board.streams.orders("one", ["job"]).remove == []
    board.streams.remove("job")
    assert board.streams.orders("one", ["job"]).remove == ["job"]
    assert not board.streams.drained
