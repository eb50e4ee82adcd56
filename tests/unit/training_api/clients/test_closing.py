"""What keeps connections closes them when it is left, however it is left."""

from __future__ import annotations

import pytest

from training_api.clients.closing import Closing


class Keeper(Closing):
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_leaving_the_block_closes_once() -> None:
    with Keeper() as keeper:
        assert keeper.closed == 0

    assert keeper.closed == 1


def test_an_error_within_the_block_closes_too_and_goes_on() -> None:
    keeper = Keeper()

    with pytest.raises(KeyError, match="lost"), keeper:
        raise KeyError("lost")

    assert keeper.closed == 1


def test_what_does_not_say_how_to_close_cannot_be_left() -> None:
    with pytest.raises(NotImplementedError), Closing():
        pass
