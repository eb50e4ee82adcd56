"""Asking what may hang: in time, and one thread at most."""

from __future__ import annotations

import threading

import pytest

from tests.support.speed import scaled
from training_service.model.probe import Probe


def test_an_answer_and_an_error_are_passed_on() -> None:
    assert Probe(lambda: 7, scaled(60)).ask() == 7
    with pytest.raises(ZeroDivisionError):
        Probe(lambda: 1 // 0, scaled(60)).ask()


def test_what_hangs_is_asked_once_until_it_answers() -> None:
    may_end, asked = threading.Event(), []

    def hang() -> int:
        asked.append(1)
        may_end.wait()
        return len(asked)

    probe = Probe(hang, 0.01)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            probe.ask()
    outstanding = probe.begin()
    may_end.set()

    assert outstanding.result(scaled(60)) == 1
    assert probe.begin().result(scaled(60)) == 2
