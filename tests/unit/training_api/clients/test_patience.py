"""Asking again: for so long after the first error, and not after the first question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.clients.patience import patiently
from training_api.errors import JobNotFound, Throttled, TransportError
from training_api.retrying import MAX_BACKOFF_SECONDS, backoff_seconds

NO_ANSWER = TransportError("no answer")


def throttled(retry_after_seconds: float | None) -> Throttled:
    return Throttled(
        "slow down", code=429, status="RESOURCE_EXHAUSTED", retry_after_seconds=retry_after_seconds
    )


class Service:
    """
    Does not answer; a virtual clock counts what that costs.

    :param hangs_seconds: how long the first call hangs before it fails; the others fail at once.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hangs_seconds: float) -> None:
        self.now = 1000.0
        self.calls = 0
        self._hangs_seconds = hangs_seconds
        monkeypatch.setattr("tenacity.time.monotonic", lambda: self.now)

    def ask(self) -> None:
        self.now += 0.0 if self.calls else self._hangs_seconds
        self.calls += 1
        raise TransportError("no answer")

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("hangs_seconds", [0.0, 120.0])
def test_it_is_asked_for_a_minute_after_the_first_error(
    monkeypatch: pytest.MonkeyPatch, hangs_seconds: float
) -> None:
    service = Service(monkeypatch, hangs_seconds)

    with pytest.raises(TransportError):
        patiently(60.0, sleep=service.sleep)(service.ask)

    assert service.calls > 5
    # A pause is at most 10 s; none is begun that would end after the minute.
    assert 50.0 <= service.now - 1000.0 - hangs_seconds <= 60.0


def test_each_question_has_a_minute_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(monkeypatch, 0.0)
    retrying = patiently(60.0, sleep=service.sleep)

    for _ in range(2):
        with pytest.raises(TransportError):
            retrying(service.ask)

    assert service.now - 1000.0 >= 100.0


def test_without_patience_it_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(monkeypatch, 0.0)

    with pytest.raises(TransportError):
        patiently(0.0, sleep=service.sleep)(service.ask)

    assert service.calls == 1


def test_what_will_not_pass_is_not_asked_again() -> None:
    calls: list[int] = []

    def ask() -> None:
        calls.append(1)
        raise JobNotFound("no such job", code=404, status="NOT_FOUND")

    with pytest.raises(JobNotFound):
        patiently(60.0)(ask)

    assert calls == [1]


def test_pauses_double_up_to_ten_seconds() -> None:
    pauses = [backoff_seconds(failures, 0.5, NO_ANSWER, jitter=1.0) for failures in range(1, 8)]

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@given(failures=st.integers(1, 10**6), first=st.floats(0.01, 10.0), jitter=st.floats(0.0, 1.0))
def test_every_pause_lies_in_the_upper_half_of_its_step(failures: int, first: float, jitter: float) -> None:
    ceiling = backoff_seconds(failures, first, NO_ANSWER, jitter=1.0)

    pause = backoff_seconds(failures, first, NO_ANSWER, jitter=jitter)

    assert ceiling <= MAX_BACKOFF_SECONDS
    assert ceiling / 2 <= pause <= ceiling


@pytest.mark.parametrize(("asked", "expected"), [(None, 1.0), (0.0, 1.0), (0.5, 1.0), (60.0, 60.0)])
def test_a_longer_wish_of_the_service_wins(asked: float | None, expected: float) -> None:
    assert backoff_seconds(2, 0.5, throttled(asked), jitter=1.0) == expected
