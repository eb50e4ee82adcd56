"""The ledger against a service that answers as jobs:search does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from container_training.dashboard.service_side import fleet_jobs
from container_training.dashboard.service_side.fleet_jobs import HORIZON, FleetJob, Ledger
from tests.support.fakes.job_rows import NOON, after, make_row
from training_api.causes import Cause
from training_api.dialects.ml_v1.job_rows import JobRow, SearchJobsResponse
from training_api.errors import TransportError
from training_api.fleet.wire import SearchJobsRequest
from training_api.states import JobState


class FakeService:
    """
    Holds rows, and answers with those that match a request.

    ``seconds`` is the clock of the service and of its clients.
    """

    def __init__(self, *rows: JobRow) -> None:
        self.rows = {row.job_id: row for row in rows}
        self.asked: list[SearchJobsRequest] = []
        self.seconds = 60.0
        self.page_size = 10_000
        self.is_down = False

    def search(self, request: SearchJobsRequest) -> SearchJobsResponse:
        if self.is_down:
            raise TransportError("no answer")
        self.asked.append(request)
        found = [row for row in self.rows.values() if self._is_wanted(row, request)]
        first = int(request.page_token or 0)
        last = first + self.page_size
        token = str(last) if last < len(found) else ""
        return SearchJobsResponse(jobs=found[first:last], next_page_token=token, total=len(found))

    def _is_wanted(self, row: JobRow, request: SearchJobsRequest) -> bool:
        if request.filter:
            return "model" in row.labels and row.create_time < after(self.seconds) - HORIZON
        assert request.changed_after is not None
        return row.end_time is None or row.end_time > request.changed_after

    def ledger(self) -> Ledger:
        return Ledger(self.search, clock=lambda: self.seconds, now=lambda: after(self.seconds))


def ended(job_id: str, seconds: float = 30, **changes: Any) -> JobRow:
    return make_row(**{"job_id": job_id, "state": JobState.SUCCEEDED, "end_time": after(seconds), **changes})


def by_id(ledger: Ledger) -> dict[str, FleetJob]:
    return {job.job_id: job for job in ledger.snapshot().jobs}


def test_first_look_has_all_and_the_next_asks_only_for_what_changed() -> None:
    service = FakeService(ended("old"), make_row(job_id="goes_on"))
    ledger = service.ledger()
    first = ledger.snapshot()

    service.seconds += 300
    service.rows["goes_on"] = ended("goes_on", 200)
    service.rows["new"] = make_row(job_id="new", create_time=after(250))
    second = ledger.snapshot()

    assert [request.changed_after for request in service.asked if not request.filter] == [
        after(60) - HORIZON,
        after(60) - timedelta(minutes=2),
    ]
    assert {job.job_id: job.state for job in second.jobs} == {
        "old": JobState.SUCCEEDED,
        "goes_on": JobState.SUCCEEDED,
        "new": JobState.RUNNING,
    }
    assert second.number != first.number


def test_within_a_second_nobody_is_asked_again() -> None:
    service = FakeService(ended("a"))
    ledger = service.ledger()
    ledger.snapshot()
    before = len(service.asked)

    service.seconds += 0.5
    ledger.snapshot()

    assert len(service.asked) == before


def test_same_jobs_are_the_same_snapshot() -> None:
    service = FakeService(ended("a"), make_row(job_id="b"))
    ledger = service.ledger()
    first = ledger.snapshot()

    service.seconds += 100

    assert ledger.snapshot() is first


def test_job_that_is_neither_alive_nor_newly_ended_makes_the_ledger_ask_for_all() -> None:
    service = FakeService(make_row(job_id="a"))
    service.seconds = 300
    ledger = service.ledger()
    ledger.snapshot()

    service.seconds = 400
    service.rows["a"] = ended("a", 61)  # written late: it lies before what is asked for

    assert by_id(ledger)["a"].ended is not None


def test_all_is_asked_for_anew_now_and_then() -> None:
    service = FakeService(ended("a", labels={"team": "old"}))
    ledger = service.ledger()
    ledger.snapshot()

    service.seconds += 1801
    service.rows["a"] = ended("a", labels={"team": "new"})

    assert by_id(ledger)["a"].labels == {"team": "new"}


def test_more_jobs_than_are_held_are_cut_and_it_says_from_when_on_all_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_jobs, "MAX_JOBS", 4)
    rows = [ended(f"job_{place}", create_time=after(20 - place)) for place in range(9)]
    service = FakeService(*rows)
    service.page_size = 2

    snapshot = service.ledger().snapshot()

    assert [job.job_id for job in snapshot.jobs] == ["job_0", "job_1", "job_2", "job_3"]
    assert snapshot.since == after(17).timestamp()


def test_service_that_is_down_is_an_error_and_the_next_look_goes_on() -> None:
    service = FakeService(ended("a"))
    ledger = service.ledger()
    ledger.snapshot()
    service.seconds += 10
    service.is_down = True
    with pytest.raises(TransportError):
        ledger.snapshot()

    service.is_down = False

    assert set(by_id(ledger)) == {"a"}


def test_models_keep_their_last_good_job_however_old() -> None:
    long_ago = NOON - timedelta(days=90)
    rows = [
        ended(name, labels={"model": "m"}, create_time=long_ago, end_time=long_ago + timedelta(days=days))
        for name, days in (("older", 1), ("newer", 2))
    ]
    snapshot = FakeService(*rows).ledger().snapshot()

    assert snapshot.jobs == ()
    assert [job.job_id for job in snapshot.older_models] == ["newer"]


def test_jobs_of_the_same_machines_share_them() -> None:
    other = make_row(job_id="c", training_input={"scaleTier": "CUSTOM", "masterType": "n1-standard-8"})
    jobs = by_id(FakeService(ended("a"), make_row(job_id="b"), other).ledger())

    assert jobs["a"].shape is jobs["b"].shape
    assert jobs["c"].shape is not jobs["b"].shape


@pytest.mark.parametrize(
    ("row", "of", "value"),
    [
        (make_row(trials={"total": 8, "ended": 0}, billed_seconds=110), lambda job: job.runs, 2.0),
        (make_row(billed_seconds=55), lambda job: job.runs, 1.0),
        (
            ended(
                "x",
                state=JobState.FAILED,
                reason={"cause": "OUT_OF_MEMORY", "replica": "master 0", "exitCode": 137},
            ),
            lambda job: job.cause,
            Cause.OUT_OF_MEMORY,
        ),
        (ended("x", state=JobState.FAILED, error_message="why"), lambda job: job.cause, Cause.UNKNOWN),
        (ended("x", state=JobState.CANCELLED), lambda job: job.cause, None),
        (make_row(labels={"airflow-dag": "my-dag"}), lambda job: job.dag, "my-dag"),
        (make_row(), lambda job: job.dag, ""),
    ],
)
def test_what_is_kept_of_a_row(row: JobRow, of: Callable[[FleetJob], Any], value: object) -> None:
    (job,) = FakeService(row).ledger().snapshot().jobs

    assert of(job) == value
