"""What a pull's owner and its engine share: whether it is still wanted, and its time limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from training_api.errors import EngineError, RegistryUnavailable

#: A slow registry still sends something, and the engine reports what it unpacks.
SILENT_SECONDS = 300.0
#: 20 GB at 3 MB/s.
DEADLINE_SECONDS = 7200.0


class PullAbandoned(EngineError):
    """The owner of the pull gave it up."""


class PullWatch:
    """
    One pull; safe for threads. Its owner calls ``cancel``, its engine everything else.

    :param silent_seconds: the longest pause without progress.
    :param deadline_seconds: the longest time for the whole pull.
    :param clock: seconds, from any origin.
    """

    def __init__(
        self,
        *,
        silent_seconds: float = SILENT_SECONDS,
        deadline_seconds: float = DEADLINE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._silent_seconds = silent_seconds
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._began_at = self._heard_at = clock()
        self._lock = threading.Lock()
        self._cancelled = False
        self._hang_up: Callable[[], None] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the pull was given up."""
        return self._cancelled

    def cancel(self) -> None:
        """Give the pull up and wake what waits for it at once. May be called twice."""
        with self._lock:
            self._cancelled = True
            if self._hang_up:
                self._hang_up()

    def progress(self) -> None:
        """Record progress."""
        self._heard_at = self._clock()

    @property
    def seconds_left(self) -> float:
        """How long to wait for the next progress; 0: the pull has taken too long."""
        now = self._clock()
        silence = self._silent_seconds - (now - self._heard_at)
        return max(min(silence, self._deadline_seconds - (now - self._began_at)), 0.0)

    @contextmanager
    def waiting(self, hang_up: Callable[[], None]) -> Iterator[None]:
        """
        Have ``cancel`` call ``hang_up`` while the block runs.

        :param hang_up: wakes what the block waits for; called from another thread, must not raise or block.
        :raises PullAbandoned: the pull was given up before.
        """
        with self._lock:
            if self._cancelled:
                raise PullAbandoned("the pull was given up")
            self._hang_up = hang_up
        try:
            yield
        finally:
            with self._lock:
                self._hang_up = None

    def error(self, doing: str) -> EngineError | RegistryUnavailable:
        """Return the error that ends the pull early; ``doing``: ``pull IMAGE``."""
        if self._cancelled:
            return PullAbandoned(f"{doing}: given up")
        if self._clock() - self._began_at >= self._deadline_seconds:
            return RegistryUnavailable(f"{doing}: not done after {self._deadline_seconds:g} seconds")
        return RegistryUnavailable(f"{doing}: no byte came for {self._silent_seconds:g} seconds")
