"""An event loop whose time jumps to the next timer, so that hours of waiting take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tests.support.fakes.fake_service import EPOCH
from tests.support.speed import scaled

_Result = TypeVar("_Result")
#: Of an idle machine; longer than any thread that a test waits for.
_STUCK_SECONDS = 60.0


class VirtualClock:
    """
    The time of one run; the loop begins at ``EPOCH``.

    :param acts: the first happens half a second after the start, each other one a second after the one
        before.
    """

    def __init__(self, *acts: Callable[[], Any]) -> None:
        self.start = EPOCH
        self.seconds = 0.0
        self.acts = list(acts)

    @property
    def time(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def now(self) -> datetime:
        return self.time

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run ``coroutine`` in virtual time, and let ``acts`` happen meanwhile."""
        with asyncio.Runner(loop_factory=lambda: _VirtualLoop(self)) as runner:
            for place, act in enumerate(self.acts):
                runner.get_loop().call_later(place + 0.5, act)
            return runner.run(coroutine)


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # the platform's own class
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock
        #: Threads at work for the loop: what they do takes real time, and no virtual one.
        self.busy = 0

    def select(self, timeout: float | None = None) -> Any:
        is_free = timeout is not None and not self.busy
        ready = super().select(0 if is_free or timeout == 0 else scaled(_STUCK_SECONDS))
        if not ready and timeout is None:
            raise AssertionError("everybody waits, and nothing will happen")
        if not ready and is_free and timeout:
            self.clock.seconds += timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._jumping = _JumpingSelector(clock)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._clock.seconds

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        self._jumping.busy += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._free)
        return future

    def _free(self, _: Any) -> None:
        self._jumping.busy -= 1
