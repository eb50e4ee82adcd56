"""The app that the plugin names is made by the first request, once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from container_training.dashboard import app
from container_training.dashboard.lazy import LazyApp


class CountedApp:
    """Stands for the dashboard: keeps the paths that it was asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])


class Maker:
    """Makes an app, in a thread, and counts."""

    def __init__(self) -> None:
        self.app = CountedApp()
        self.threads: list[str] = []
        self.errors: list[Exception] = []

    def __call__(self) -> CountedApp:
        self.threads.append(threading.current_thread().name)
        if self.errors:
            raise self.errors.pop()
        return self.app


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Maker:
    maker = Maker()
    monkeypatch.setattr(app, "make_app", maker)
    return maker


def ask(lazy: LazyApp, *paths: str) -> None:
    """Ask for all paths at once."""

    async def never(*_: Any) -> Any:
        raise AssertionError("nothing is read or sent here")

    async def ask_all() -> None:
        await asyncio.gather(*(lazy({"type": "http", "path": path}, never, never) for path in paths))

    asyncio.run(ask_all())


def test_nothing_is_made_before_somebody_asks(maker: Maker) -> None:
    LazyApp()

    assert maker.threads == []


def test_many_first_requests_make_one_app_and_all_are_answered(maker: Maker) -> None:
    lazy = LazyApp()

    ask(lazy, *(f"/{number}" for number in range(20)))
    ask(lazy, "/later")

    assert len(maker.threads) == 1
    assert sorted(maker.app.paths) == sorted([*(f"/{number}" for number in range(20)), "/later"])


def test_it_is_made_beside_the_event_loop_which_goes_on(maker: Maker) -> None:
    ask(LazyApp(), "/jobs")

    assert maker.threads != [threading.current_thread().name]


def test_an_app_that_could_not_be_made_is_tried_again(maker: Maker) -> None:
    lazy = LazyApp()
    maker.errors = [ImportError("a library is missing")]

    with pytest.raises(ImportError):
        ask(lazy, "/jobs")
    ask(lazy, "/jobs")

    assert maker.app.paths == ["/jobs"]
