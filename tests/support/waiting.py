"""
Waiting for events in tests.

Deadlines follow the machine's speed, and cost time only if a test fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.support.speed import scaled

T = TypeVar("T")

#: Most of what a test waits for is there after a few milliseconds.
_FIRST_PAUSE_SECONDS = 0.002
#: Of a log, in an error.
_TOLD_LINES = 8


def wait_until(
    condition: Callable[[], T],
    what: str,
    *,
    seconds: float = 60.0,
    poll_seconds: float = 0.05,
    ignoring: type[Exception] | tuple[type[Exception], ...] = (),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """
    Return the first truthy value of ``condition``.

    :param what: what is waited for, as a clause: ``"the job has ended"``.
    :param seconds: how long it may take on an idle machine.
    :param poll_seconds: the longest pause between two tries; the first ones are shorter.
    :param ignoring: errors of ``condition`` that mean "not yet"; any other error ends the wait.
    :raises AssertionError: it took longer; says what ``condition`` returned or raised last.
    """
    pause = min(_FIRST_PAUSE_SECONDS, poll_seconds)
    for found in _tries(condition, what, seconds, ignoring, clock):
        if found:
            return found
        sleep(pause)
        pause = min(2 * pause, poll_seconds)
    raise AssertionError(what)


def end_of(lines: Sequence[str]) -> str:
    """Return the last lines of a log as one, which is all that a summary of failures shows."""
    return " | ".join(lines[-_TOLD_LINES:])


async def wait_until_async(
    condition: Callable[[], T], what: str, *, seconds: float = 60.0, poll_seconds: float = 0.01
) -> T:
    """Do what ``wait_until`` does, while the other tasks of the event loop run."""
    for found in _tries(condition, what, seconds, (), time.monotonic):
        if found:
            return found
        await asyncio.sleep(poll_seconds)
    raise AssertionError(what)


def _tries(
    condition: Callable[[], T],
    what: str,
    seconds: float,
    ignoring: type[Exception] | tuple[type[Exception], ...],
    clock: Callable[[], float],
) -> Iterator[T | None]:
    """Yield ``None`` while ``condition`` does not hold, then its value; fail after the deadline."""
    limit = scaled(seconds)
    deadline = clock() + limit
    while True:
        # Before the condition is tried: a process that was stopped for long gets one more try.
        is_late = clock() > deadline
        value, error = None, None
        try:
            value = condition()
        except ignoring as raised:
            error = raised
        if is_late and not value:
            last = repr(error or value)
            raise AssertionError(f"waited {limit:.0f} s until {what}; last: {last}") from error
        yield value
