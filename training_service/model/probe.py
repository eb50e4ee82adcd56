"""Calls functions that may hang, with a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Probe(Generic[_T]):
    """
    Calls a function on its own thread and waits at most ``seconds``; safe for threads.

    While an answer is outstanding the function is not called again: every caller waits for that answer. So a
    part that hangs blocks only one thread, however often it is asked.
    """

    def __init__(self, ask: Callable[[], _T], seconds: float) -> None:
        self.seconds = seconds
        self._ask = ask
        self._lock = threading.Lock()
        self._asked: Future[_T] | None = None

    def begin(self) -> Future[_T]:
        """Call the function unless a call is running; return the future of that call."""
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = Future()
                thread = threading.Thread(target=self._answer, args=(self._asked,), name="probe", daemon=True)
                thread.start()
            return self._asked

    def ask(self) -> _T:
        """
        Return the answer.

        :raises TimeoutError: there was none in time.
        :raises Exception: what the function raised.
        """
        return self.begin().result(self.seconds)

    def _answer(self, asked: Future[_T]) -> None:
        try:
            asked.set_result(self._ask())
        except Exception as error:
            asked.set_exception(error)
