"""What a job is refused, for how long, and which reasons are new."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from training_api.errors import EngineBusy, EngineUnavailable
from training_service.loop.refusals import Refusals, RepeatedRefusal
from training_service.model.work import PullImages, StartReplicas

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_row_of_refusals_lasts_since_its_first() -> None:
    refusals = Refusals()

    refusals.add("a", PullImages, EngineBusy("taken"), NOW)
    second = refusals.add("a", PullImages, EngineBusy("taken"), after(5))

    assert second == RepeatedRefusal(lasted=timedelta(seconds=5), is_new=False)


def test_what_does_not_count_begins_the_row_anew_but_not_its_reasons() -> None:
    refusals = Refusals()
    refusals.add("a", PullImages, EngineBusy("taken"), NOW)
    refusals.add("a", PullImages, EngineUnavailable("down"), after(100), counts=False)

    third = refusals.add("a", PullImages, EngineBusy("taken"), after(105))

    assert third == RepeatedRefusal(lasted=timedelta(seconds=5), is_new=False)


def test_a_reason_is_new_unless_only_its_numbers_are() -> None:
    refusals = Refusals()
    texts = ["dial 10.0.0.1:4711 failed", "dial 10.0.0.1:4712 failed", "no address", "dial 10.0.0.9:1 failed"]

    new = [refusals.add("a", PullImages, EngineBusy(text), NOW).is_new for text in texts]

    assert new == [True, False, True, False]


def test_the_same_words_of_another_kind_are_another_reason() -> None:
    refusals = Refusals()

    refusals.add("a", PullImages, EngineBusy("x"), NOW)

    assert refusals.add("a", PullImages, EngineUnavailable("x"), NOW).is_new


def test_jobs_and_kinds_of_work_have_rows_of_their_own_until_they_are_forgotten() -> None:
    refusals = Refusals()
    refusals.add("a", PullImages, EngineBusy("x"), NOW)
    refusals.add("a", StartReplicas, EngineBusy("x"), NOW)

    refusals.forget("a", PullImages)

    new = RepeatedRefusal(lasted=timedelta(0), is_new=True)
    assert refusals.add("a", PullImages, EngineBusy("x"), after(5)) == new
    assert refusals.add("b", StartReplicas, EngineBusy("x"), after(5)) == new
    assert refusals.add("a", StartReplicas, EngineBusy("x"), after(5)).lasted == timedelta(seconds=5)
