"""Asking again for a while: what may pass by itself is asked for once more, with pauses that grow and differ."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay

from container_training.core.errors import TrainingError
from container_training.core.retrying import TRANSIENT, backoff_seconds

_FIRST_BACKOFF_SECONDS = 0.5


def patiently(
    seconds: float,
    *,
    errors: tuple[type[TrainingError], ...] = TRANSIENT,
    first_backoff_seconds: float = _FIRST_BACKOFF_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[RetryCallState], None] | None = None,
) -> Retrying:
    """
    Return what calls a function again while it raises one of ``errors``, and then raises the last of them.

    A Retry-After of the service is kept to. It is given up at once where the next pause would end after ``seconds``.

    :param seconds: 0: called once.
    :param say: called before each pause, for the log.
    """

    def pause(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, Exception):
            return 0.0
        # Not for secrets: it keeps those who collided from colliding again.
        return backoff_seconds(state.attempt_number, first_backoff_seconds, error, random.random())  # noqa: S311

    return Retrying(
        retry=retry_if_exception_type(errors),
        wait=pause,
        stop=stop_before_delay(seconds),
        sleep=sleep,
        before_sleep=say,
        reraise=True,
    )
