"""Work on threads of which there are never more than a few."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class DaemonThreads:
    """
    A few threads that start when they are needed and end when nothing is left.

    They hold up no exit of the process.

    What is done must not raise.

    :param most: how many there may be.
    """

    def __init__(self, name: str, *, most: int) -> None:
        self._name = name
        self._most = most
        self._reset()
        # The child of a fork has the queue, and none of the threads.
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._running = 0

    def do(self, act: Callable[..., None], *args: Any) -> None:
        """Call ``act`` soon."""
        with self._lock:
            self._waiting.append((act, args))
            if self._running == self._most:
                return
            self._running += 1
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                act, args = self._waiting.popleft()
            act(*args)
