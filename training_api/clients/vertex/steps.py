"""An operation of several requests, written once for threads and asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import httpx

from training_api.errors import TrainingError

_T = TypeVar("_T")
#: Yields requests, is sent their answers, or the errors that they stand for, and returns what it found.
Steps = Generator[httpx.Request, Any, _T]


def play(steps: Steps[_T], send: Callable[[httpx.Request], Any]) -> _T:
    """Return what ``steps`` find; ``send`` does their requests."""
    try:
        request = next(steps)
        while True:
            try:
                answer = send(request)
            except TrainingError as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        found: _T = end.value
        return found


async def play_async(steps: Steps[_T], send: Callable[[httpx.Request], Awaitable[Any]]) -> _T:
    """Return what ``steps`` find; ``send`` does their requests."""
    try:
        request = next(steps)
        while True:
            try:
                answer = await send(request)
            except TrainingError as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        found: _T = end.value
        return found
