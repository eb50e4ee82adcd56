"""The tokens of join commands: good once, and for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_stack.machines.invitations import JOIN_SECONDS, Invitations

ADDRESS = "10.0.0.6"


class Clock:
    """Seconds since the epoch, as a test sets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def invitations(tmp_path: Path, clock: Clock) -> Invitations:
    return Invitations(tmp_path, clock)


def test_a_token_is_good_once(invitations: Invitations) -> None:
    token = invitations.issue(60)

    assert invitations.use(token, ADDRESS, ["b", "a"])
    assert not invitations.use(token, ADDRESS, [])
    (given,) = invitations.given().values()
    assert (given.address, given.before) == (ADDRESS, ["a", "b"])


def test_a_token_expires(invitations: Invitations, clock: Clock) -> None:
    token = invitations.issue(60)
    clock.now += 60

    assert not invitations.use(token, ADDRESS, [])
    assert not invitations.given()


@pytest.mark.parametrize("token", ["", "x" * 43, "../../tokens.json", "x" * 5000, "a b" * 10])
def test_no_other_text_is_a_token(invitations: Invitations, token: str) -> None:
    invitations.issue(60)

    assert not invitations.use(token, ADDRESS, [])


def test_files_have_the_digest_of_a_token_alone_and_are_their_owners(
    invitations: Invitations, tmp_path: Path
) -> None:
    token = invitations.issue(60)
    invitations.use(token, ADDRESS, [])
    other = invitations.issue(60)

    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert len(files) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    text = "".join(f"{path} {path.read_text()}" for path in files)
    assert token not in text
    assert other not in text


def test_what_was_given_is_known_to_the_next_process_and_its_time_passes(
    invitations: Invitations, clock: Clock, tmp_path: Path
) -> None:
    invitations.use(invitations.issue(60), ADDRESS, [])

    after_a_kill = Invitations(tmp_path, clock)
    (digest, given), *_ = after_a_kill.given().items()
    was_over = after_a_kill.is_over(given)
    clock.now += JOIN_SECONDS

    assert not was_over
    assert after_a_kill.is_over(given)
    after_a_kill.forget([digest])
    assert not after_a_kill.given()


def test_one_that_was_killed_between_its_two_steps_is_given_and_may_come_again(
    invitations: Invitations, tmp_path: Path
) -> None:
    token = invitations.issue(60)
    (path,) = (tmp_path / "open").iterdir()
    before = path.read_text()
    invitations.use(token, ADDRESS, [])
    path.write_text(before)  # as if it had ended before it removed the file

    assert invitations.given()
    assert invitations.use(token, ADDRESS, [])


def test_tokens_that_nobody_used_in_time_are_removed(
    invitations: Invitations, clock: Clock, tmp_path: Path
) -> None:
    invitations.issue(60)
    invitations.issue(600)
    (tmp_path / "open" / "x.new").write_text("{")  # of a killed process
    clock.now += 100

    invitations.remove_expired()

    assert len([path for path in (tmp_path / "open").iterdir() if not path.suffix]) == 1
