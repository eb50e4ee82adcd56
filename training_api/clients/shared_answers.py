"""Answers of a service that are kept for a moment, so that many threads ask it once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class Answers:
    """
    Answers by request.

    Each is requested once, however many threads want it at the same moment.

    Errors are answers too: a service that is down is not asked by each page anew.

    :param keep_seconds: how long an answer serves.
    :param clock: seconds; for tests.
    """

    def __init__(self, keep_seconds: float = 0.5, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[float, Future[Any]]] = {}

    def get(self, question: Hashable, ask: Callable[[], _T], *, keep_seconds: float = 0.0) -> _T:
        """
        Return the answer to ``question``, at most ``keep_seconds`` old when this was called.

        :param keep_seconds: how long this one serves, if that is longer.

        :param ask: is called at most once for it, in the thread of the first who wants it; what it raises is
            raised for all.
        """
        now = self._clock()
        with self._lock:
            self._kept = {
                key: (until, future)
                for key, (until, future) in self._kept.items()
                if until > now or not future.done()
            }
            kept = self._kept.get(question)
            if kept is None:
                future: Future[Any] = Future()
                self._kept[question] = (now + max(self._keep_seconds, keep_seconds), future)
        if kept is not None:
            answer: _T = kept[1].result()
            return answer
        try:
            found = ask()
        except BaseException as error:
            future.set_exception(error)
            raise
        future.set_result(found)
        return found
