"""A hook closes the clients that it has made, and only those."""

from __future__ import annotations

from typing import ClassVar

from container_training.hooks.closing import ClosingHook
from training_api.cached import cached_property


class Client:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class TwoClientsHook(ClosingHook):
    """Keeps two clients, of which one may be absent."""

    kept: ClassVar[tuple[str, ...]] = ("first", "second")

    @cached_property
    def first(self) -> Client:
        return Client()

    @cached_property
    def second(self) -> Client | None:
        return None


def test_what_was_made_is_closed_once() -> None:
    hook = TwoClientsHook()
    client = hook.first

    hook.close()
    hook.close()

    assert client.closed == 1


def test_closing_makes_no_client() -> None:
    hook = TwoClientsHook()

    hook.close()

    assert "first" not in vars(hook)


def test_a_client_that_there_is_not_needs_no_closing() -> None:
    with TwoClientsHook() as hook:
        assert hook.second is None


def test_the_next_use_makes_a_new_client() -> None:
    hook = TwoClientsHook()
    closed = hook.first
    hook.close()

    assert hook.first is not closed
    assert hook.first.closed == 0
