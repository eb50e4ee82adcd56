"""When the loop's last iteration succeeded."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from training_service.model.clock import Clock, utc_now


class Heartbeat:
    """
    The end of the loop's last good iteration. Safe for threads.

    Until there is one, it is the moment when this object was made.

    :param monotonic: seconds that never run backwards.
    """

    def __init__(self, clock: Clock = utc_now, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self.beat()

    def beat(self) -> None:
        """Record that an iteration has succeeded."""
        self._beaten = (self._monotonic(), self._clock())

    @property
    def at(self) -> datetime:
        """When the last good iteration ended."""
        return self._beaten[1]

    @property
    def age_seconds(self) -> float:
        """How long ago that was."""
        return self._monotonic() - self._beaten[0]
