"""Retrying for a while, with pauses that grow and differ."""

from __future__ import annotations

import time
from collections.abc import Callable

from tenacity import RetryCallState, Retrying, retry_if_exception_type

from training_api.errors import TrainingError
from training_api.retrying import TRANSIENT, backoff_seconds, draw_jitter

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
    Return a caller that retries a function while it raises one of ``errors``.

    After that it raises the last of them.

    A Retry-After of the service is kept to. It is given up at once where the next pause would end after
    ``seconds``, which count from the first error: a call that hung until its service was restarted has cost
    time, but no patience.

    :param seconds: 0: called once.
    :param say: called before each pause, for the log.
    """

    def pause(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, Exception):
            return 0.0
        return backoff_seconds(state.attempt_number, first_backoff_seconds, error, draw_jitter())

    first_error_at = 0.0

    def is_over(state: RetryCallState) -> bool:
        nonlocal first_error_at
        now = state.outcome_timestamp or 0.0
        if state.attempt_number == 1:
            first_error_at = now
        return now - first_error_at + state.upcoming_sleep >= seconds

    return Retrying(
        retry=retry_if_exception_type(errors),
        wait=pause,
        stop=is_over,
        sleep=sleep,
        before_sleep=say,
        reraise=True,
    )
