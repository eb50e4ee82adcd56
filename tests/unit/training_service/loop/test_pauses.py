"""The pauses between two tries of the same work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from training_api.errors import EngineBusy
from training_service.loop.pauses import Pauses
from training_service.model.work import PullImages, StartReplicas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BUSY = EngineBusy("not now")


def pause_of(pauses: Pauses) -> float:
    """Return for how many seconds job ``a`` may not pull."""
    halves = (half / 2 for half in range(1000))
    return next(at for at in halves if not pauses.is_paused("a", PullImages, NOW + timedelta(seconds=at)))


def test_pauses_grow_with_each_failure_up_to_a_limit() -> None:
    pauses = Pauses(1.0, jitter=lambda: 1.0)

    seconds = []
    for _ in range(6):
        pauses.begin("a", PullImages, BUSY, NOW)
        seconds.append(pause_of(pauses))

    assert seconds == [1, 2, 4, 8, 10, 10]


def test_what_was_done_begins_anew() -> None:
    pauses = Pauses(1.0, jitter=lambda: 1.0)
    for _ in range(3):
        pauses.begin("a", PullImages, BUSY, NOW)

    pauses.end("a", PullImages)

    assert pause_of(pauses) == 0
    pauses.begin("a", PullImages, BUSY, NOW)
    assert pause_of(pauses) == 1


def test_another_job_and_other_work_of_the_same_job_do_not_wait() -> None:
    pauses = Pauses(1.0, jitter=lambda: 1.0)

    pauses.begin("a", PullImages, BUSY, NOW)

    assert pauses.is_paused("a", PullImages, NOW)
    assert not pauses.is_paused("a", StartReplicas, NOW)
    assert not pauses.is_paused("b", PullImages, NOW)


def test_jobs_that_are_gone_are_forgotten() -> None:
    pauses = Pauses(1.0, jitter=lambda: 1.0)
    pauses.begin("a", PullImages, BUSY, NOW)
    pauses.begin("b", PullImages, BUSY, NOW)

    pauses.keep({"b"})

    assert not pauses.is_paused("a", PullImages, NOW)
    assert pauses.is_paused("b", PullImages, NOW)
