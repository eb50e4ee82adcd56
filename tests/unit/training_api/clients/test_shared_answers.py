from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from training_api.clients.shared_answers import Answers
from training_api.errors import TransportError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_answer_serves_for_a_moment_and_no_longer() -> None:
    clock = Clock()
    answers = Answers(keep_seconds=0.5, clock=clock)
    asked = iter(range(10))

    first = answers.get("q", lambda: next(asked))
    clock.now = 0.49
    second = answers.get("q", lambda: next(asked))
    clock.now = 0.51
    third = answers.get("q", lambda: next(asked))

    assert (first, second, third) == (0, 0, 1)


def test_an_answer_may_serve_longer_and_not_shorter() -> None:
    clock = Clock()
    answers = Answers(keep_seconds=0.5, clock=clock)
    asked = iter(range(10))

    answers.get("long", lambda: next(asked), keep_seconds=5.0)
    answers.get("short", lambda: next(asked), keep_seconds=0.1)
    clock.now = 0.4

    assert answers.get("short", lambda: next(asked)) == 1
    clock.now = 4.9
    assert answers.get("long", lambda: next(asked)) == 0


def test_other_question_is_asked_by_itself() -> None:
    answers = Answers()

    assert answers.get(("q", "v1"), lambda: 1) == 1
    assert answers.get(("q", "v2"), lambda: 2) == 2


def test_many_at_once_ask_once() -> None:
    answers = Answers(clock=Clock())
    everybody_waits = threading.Barrier(20)
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        threading.Event().wait(0.2)  # so that some come meanwhile; those who come later get the kept answer
        return "answer"

    def one() -> str:
        everybody_waits.wait()
        return answers.get("q", ask)

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: one(), range(20)))

    assert found == ["answer"] * 20
    assert len(asked) == 1


def test_error_is_an_answer_too() -> None:
    answers = Answers(clock=Clock())
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        raise TransportError("down")

    for _ in range(3):
        with pytest.raises(TransportError, match="down"):
            answers.get("q", ask)

    assert len(asked) == 1
