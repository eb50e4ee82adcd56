"""Asking again: for so long after the first error, and not after the first question."""

from __future__ import annotations

import pytest

from training_api.clients.patience import patiently
from training_api.errors import JobNotFound, TransportError


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
