"""Live updates: one request a second to a service, however many pages are open."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from container_training.dashboard.problems import problem_of
from training_api.errors import TrainingError

_log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
#: The longest pause while the service does not answer.
_MAX_PAUSE_SECONDS = 5.0
#: A stream ends after so long, and the browser opens the next one at once: the login is looked at again, and
#: a server that is told to stop, which waits for open answers, does not wait for long.
STREAM_SECONDS = 15.0
_RECONNECT_MILLISECONDS = 200


@dataclass(frozen=True, slots=True)
class Update:
    """
    What pages are told.

    :param event: ``version``, or ``trouble``: the service does not answer.
    :param data: JSON on one line.
    """

    event: str
    data: str

    def to_stream(self) -> str:
        """Return it in the form of server-sent events."""
        return f"event: {self.event}\ndata: {self.data}\n\n"


class Feed:
    """
    The updates of one service, shared by all streams. For one event loop.

    It polls only while there is a stream.

    :param ask: returns the service's version; called in a thread.
    """

    def __init__(self, ask: Callable[[], str], poll_seconds: float = POLL_SECONDS) -> None:
        self._ask = ask
        self._poll_seconds = poll_seconds
        self._changed = asyncio.Event()
        self._latest: Update | None = None
        self._readers = 0
        self._task: asyncio.Task[None] | None = None

    async def updates(self, seconds: float) -> AsyncGenerator[Update, None]:
        """Yield the state of affairs at once, then each change of it, for ``seconds``."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        self._readers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            seen: Update | None = None
            while True:
                changed, latest = self._changed, self._latest
                if latest is not None and latest != seen:
                    seen = latest
                    yield latest
                    continue
                # Not around the whole loop: a generator must not be cancelled while its reader has the word.
                await asyncio.wait_for(changed.wait(), until - clock())
        except TimeoutError:
            return
        finally:
            self._readers -= 1

    async def _run(self) -> None:
        pause = self._poll_seconds
        try:
            while self._readers:
                update = await self._look()
                if update != self._latest:
                    self._latest = update
                    self._changed.set()
                    self._changed = asyncio.Event()
                trouble = update.event == "trouble"
                pause = min(pause * 2, _MAX_PAUSE_SECONDS) if trouble else self._poll_seconds
                await asyncio.sleep(pause)
        finally:
            # The next reader starts anew: what was true long ago is not told again.
            self._task = None
            self._latest = None

    async def _look(self) -> Update:
        try:
            version = await asyncio.to_thread(self._ask)
        except TrainingError as error:
            return Update("trouble", json.dumps(problem_of(error)[1]))
        except Exception:
            _log.exception("the training service cannot be asked for its version")
            problem = {
                "message": "the dashboard failed to ask the training service",
                "advice": "The log of Airflow's API server says why.",
            }
            return Update("trouble", json.dumps(problem))
        return Update("version", json.dumps(version))


async def stream(feed: Feed, seconds: float = STREAM_SECONDS) -> AsyncGenerator[str, None]:
    """Yield the updates of ``feed`` as server-sent events for ``seconds``."""
    yield f"retry: {_RECONNECT_MILLISECONDS}\n\n"
    async with aclosing(feed.updates(seconds)) as updates:
        async for update in updates:
            yield update.to_stream()


class Feeds:
    """Feeds by connection id. For one event loop."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask
        self._feeds: dict[str, Feed] = {}

    def get(self, conn_id: str) -> Feed:
        """Return the feed of ``conn_id``, the same one each time."""
        return self._feeds.setdefault(conn_id, Feed(lambda: self._ask(conn_id)))
