"""How long a pull may take, and how it is given up."""

from __future__ import annotations

import pytest

from container_engines.pull_watch import PullAbandoned, PullWatch
from training_api.errors import RegistryUnavailable


class Seconds:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_sign_of_a_pull_gives_it_time_until_the_deadline() -> None:
    seconds = Seconds()
    watch = PullWatch(silent_seconds=10, deadline_seconds=25, clock=seconds)

    left = []
    for seconds.now in (4.0, 8.0, 16.0, 24.0):
        left.append(watch.seconds_left)
        watch.progress()

    assert left == [6, 6, 2, 1]


@pytest.mark.parametrize(
    ("now", "message"), [(11.0, "p: no byte came for 10 seconds"), (25.0, "p: not done after 25 seconds")]
)
def test_a_pull_that_took_too_long_says_what_its_limit_is(now: float, message: str) -> None:
    seconds = Seconds()
    watch = PullWatch(silent_seconds=10, deadline_seconds=25, clock=seconds)

    seconds.now = now

    error = watch.error("p")
    assert watch.seconds_left == 0
    assert isinstance(error, RegistryUnavailable)
    assert str(error) == message


def test_a_cancel_wakes_who_waits_and_refuses_who_would() -> None:
    watch, woken = PullWatch(), []
    with watch.waiting(lambda: woken.append(True)):
        watch.cancel()

    with pytest.raises(PullAbandoned), watch.waiting(lambda: woken.append(False)):
        pass

    assert woken == [True]
    assert isinstance(watch.error("p"), PullAbandoned)


def test_what_has_ended_is_not_hung_up() -> None:
    watch, woken = PullWatch(), []
    with watch.waiting(lambda: woken.append(True)):
        pass

    watch.cancel()

    assert woken == []
