"""What a job is refused, for how long it has asked, and which reasons are new."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.fakes.world import PROJECT, World
from training_api.errors import EngineBusy, EngineUnavailable
from training_service.loop.refusals import Refusals, RepeatedRefusal
from training_service.model.work import PullImages, StartReplicas, Work
from training_service.store.database import open_database
from training_service.store.refusal_store import RefusalStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store() -> Iterator[RefusalStore]:
    database = open_database("sqlite://")
    yield RefusalStore(database)
    database.dispose()


@pytest.fixture
def refusals(store: RefusalStore) -> Refusals:
    return Refusals(store)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def add(
    refusals: Refusals,
    uid: str,
    work: type[Work],
    error: Exception,
    at: float,
    *,
    took: float = 0,
    counts: bool = True,
) -> RepeatedRefusal:
    """Refuse at ``at`` what was asked for ``took`` seconds before."""
    return refusals.add(uid, work, error, asked_at=after(at - took), now=after(at), counts=counts)


def test_a_row_of_refusals_lasts_since_its_first(refusals: Refusals) -> None:
    add(refusals, "a", PullImages, EngineBusy("taken"), 0, took=100)
    second = add(refusals, "a", PullImages, EngineBusy("taken"), 5)

    assert second == RepeatedRefusal(lasted=timedelta(seconds=5), is_new=False)


def test_what_a_try_takes_counts_and_a_time_in_which_nobody_asked_does_not(refusals: Refusals) -> None:
    add(refusals, "a", PullImages, EngineBusy("taken"), 0)
    second = add(refusals, "a", PullImages, EngineBusy("taken"), 310, took=300)
    third = add(refusals, "a", PullImages, EngineBusy("taken"), 10800)

    assert second.lasted == timedelta(seconds=310)
    assert third.lasted == timedelta(seconds=330)


def test_a_clock_that_is_set_back_takes_nothing_away(refusals: Refusals) -> None:
    add(refusals, "a", PullImages, EngineBusy("taken"), 0)

    assert add(refusals, "a", PullImages, EngineBusy("taken"), -3600).lasted == timedelta(0)


def test_what_does_not_count_begins_the_row_anew_but_not_its_reasons(refusals: Refusals) -> None:
    add(refusals, "a", PullImages, EngineBusy("taken"), 0)
    add(refusals, "a", PullImages, EngineUnavailable("down"), 100, counts=False)

    third = add(refusals, "a", PullImages, EngineBusy("taken"), 105)

    assert third == RepeatedRefusal(lasted=timedelta(seconds=5), is_new=False)


def test_a_reason_is_new_unless_only_its_numbers_are(refusals: Refusals) -> None:
    texts = ["dial 10.0.0.1:4711 failed", "dial 10.0.0.1:4712 failed", "no address", "dial 10.0.0.9:1 failed"]

    new = [add(refusals, "a", PullImages, EngineBusy(text), 0).is_new for text in texts]

    assert new == [True, False, True, False]


def test_the_same_words_of_another_kind_are_another_reason(refusals: Refusals) -> None:
    add(refusals, "a", PullImages, EngineBusy("x"), 0)

    assert add(refusals, "a", PullImages, EngineUnavailable("x"), 0).is_new


def test_jobs_and_kinds_of_work_have_rows_of_their_own_until_they_are_forgotten(refusals: Refusals) -> None:
    add(refusals, "a", PullImages, EngineBusy("x"), 0)
    add(refusals, "a", StartReplicas, EngineBusy("x"), 0)

    refusals.forget("a", PullImages)

    new = RepeatedRefusal(lasted=timedelta(0), is_new=True)
    assert add(refusals, "a", PullImages, EngineBusy("x"), 5) == new
    assert add(refusals, "b", StartReplicas, EngineBusy("x"), 5) == new
    assert add(refusals, "a", StartReplicas, EngineBusy("x"), 5).lasted == timedelta(seconds=5)


def test_a_row_goes_on_after_a_restart_unless_its_job_has_ended() -> None:
    world = World(open_database("sqlite://"))
    world.submit()
    uid = world.store.get(PROJECT, "job").uid
    store = RefusalStore(world.database)
    before = Refusals(store)
    for job_uid in (uid, "gone"):
        add(before, job_uid, StartReplicas, EngineBusy("x"), 0)
        add(before, job_uid, StartReplicas, EngineBusy("x"), 5)

    restarted = Refusals(store)

    assert [row.job_uid for row in store.load()] == [uid]
    again = add(restarted, uid, StartReplicas, EngineBusy("x"), 10)
    assert again == RepeatedRefusal(lasted=timedelta(seconds=10), is_new=False)
    restarted.forget(uid, PullImages, StartReplicas)
    assert store.load() == []
    world.database.dispose()
