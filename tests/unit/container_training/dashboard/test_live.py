from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from container_training.core.errors import TransportError
from container_training.dashboard.live import Feed, Feeds, stream


class Versions:
    """A service whose version a test sets, and which counts the questions."""

    def __init__(self) -> None:
        self.now = "1"
        self.asked = 0

    def ask(self) -> str:
        self.asked += 1
        if self.now == "down":
            raise TransportError("the training service at http://x did not answer")
        return self.now


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def test_many_streams_cost_the_service_one_question_a_look() -> None:
    versions = Versions()

    async def follow() -> list[str]:
        feed = Feed(versions.ask, poll_seconds=0.05)
        return await asyncio.gather(*(read(feed) for _ in range(50)))

    async def read(feed: Feed) -> str:
        return "".join([text async for text in stream(feed, 0.5)])

    texts = asyncio.run(follow())

    assert versions.asked <= 12
    assert all(text.count('event: version\ndata: "1"\n\n') == 1 for text in texts)


def test_change_and_trouble_and_its_end_are_told_once_each() -> None:
    versions = Versions()

    async def follow() -> list[tuple[str, object]]:
        feed = Feed(versions.ask, poll_seconds=0.01)
        told: list[tuple[str, object]] = []

        async def read() -> None:
            async for update in feed.updates(30):
                told.append((update.event, json.loads(update.data)))

        reader = asyncio.create_task(read())
        for step, version in enumerate(["1", "2", "down", "2"], start=1):
            versions.now = version
            await until(lambda step=step: len(told) == step)  # type: ignore[misc]
        reader.cancel()
        return told

    told = asyncio.run(follow())

    assert [event for event, _ in told] == ["version", "version", "trouble", "version"]
    assert [data for event, data in told if event == "version"] == ["1", "2", "2"]
    assert "did not answer" in str(told[2][1])
    assert "running" in str(told[2][1])


def test_nobody_asks_when_no_page_is_open_and_the_next_page_starts_anew() -> None:
    versions = Versions()

    async def follow() -> None:
        feed = Feed(versions.ask, poll_seconds=0.01)
        async for _ in feed.updates(0.05):
            pass
        await asyncio.sleep(0.05)
        asked = versions.asked
        await asyncio.sleep(0.1)
        assert versions.asked == asked
        versions.now = "9"
        first = [update.data async for update in feed.updates(0.1)]
        assert first == ['"9"']

    asyncio.run(follow())


def test_reader_that_goes_away_in_the_middle_is_forgotten() -> None:
    versions = Versions()

    async def follow() -> None:
        feed = Feed(versions.ask, poll_seconds=0.01)
        text = stream(feed, 30)
        assert (await anext(text)).startswith("retry: ")
        assert (await anext(text)).startswith("event: version")
        await text.aclose()
        await asyncio.sleep(0.05)
        asked = versions.asked
        await asyncio.sleep(0.05)
        assert versions.asked == asked

    asyncio.run(follow())


def test_connections_have_feeds_of_their_own() -> None:
    feeds = Feeds(lambda conn_id: conn_id)

    assert feeds.get("a") is feeds.get("a")
    assert feeds.get("a") is not feeds.get("b")
