from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

from container_training.dashboard.live import Feed, Feeds, stream
from tests.support.fakes.virtual_time import VirtualClock
from tests.support.waiting import wait_until_async
from training_api.errors import TransportError


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


async def until_nobody_can_ask() -> None:
    """Return once no other task is left."""
    await wait_until_async(lambda: len(asyncio.all_tasks()) == 1, "the feed has ended")


def test_many_streams_cost_the_service_one_question_a_look() -> None:
    versions = Versions()

    async def follow() -> list[str]:
        feed = Feed(versions.ask, poll_seconds=0.05)
        return await asyncio.gather(*(read(feed) for _ in range(50)))

    async def read(feed: Feed) -> str:
        return "".join([text async for text in stream(feed, 0.5)])

    texts = VirtualClock().run(follow())

    assert versions.asked <= 12
    assert all(text.count('event: version\ndata: "1"\n\n') == 1 for text in texts)


def test_change_and_trouble_and_its_end_are_told_once_each() -> None:
    versions = Versions()

    async def follow() -> list[tuple[str, object]]:
        feed = Feed(versions.ask, poll_seconds=0.01)
        told: list[tuple[str, object]] = []

        async def read() -> None:
            async for update in feed.updates(600):
                told.append((update.event, json.loads(update.data)))

        reader = asyncio.create_task(read())
        for step, version in enumerate(["1", "2", "down", "2"], start=1):
            versions.now = version
            await wait_until_async(
                lambda step=step: len(told) == step,  # type: ignore[misc]
                f"update {step} is told",
            )
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
        await until_nobody_can_ask()
        versions.now = "9"
        async with aclosing(feed.updates(600)) as updates:
            assert (await anext(updates)).data == '"9"'

    asyncio.run(follow())


def test_reader_that_goes_away_in_the_middle_is_forgotten() -> None:
    versions = Versions()

    async def follow() -> None:
        feed = Feed(versions.ask, poll_seconds=0.01)
        text = stream(feed, 600)
        assert (await anext(text)).startswith("retry: ")
        assert (await anext(text)).startswith("event: version")
        await text.aclose()
        await until_nobody_can_ask()

    asyncio.run(follow())


def test_connections_have_feeds_of_their_own() -> None:
    feeds = Feeds(lambda conn_id: conn_id)

    assert feeds.get("a") is feeds.get("a")
    assert feeds.get("a") is not feeds.get("b")
