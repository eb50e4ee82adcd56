"""A failure names the folders of logs, also when a program of theirs does not start."""

from pathlib import Path

import pytest

from tests.support.kept_logs import logs_in, say_where


def test_a_failure_within_the_block_is_told_where(tmp_path: Path) -> None:
    with logs_in(tmp_path, "a registry"):
        assert f"a registry: {tmp_path}" in say_where().splitlines()
    assert str(tmp_path) not in say_where()


def test_a_failure_that_ends_the_block_takes_the_place_along(tmp_path: Path) -> None:
    def start() -> None:
        with logs_in(tmp_path, "a registry"):
            raise TimeoutError("it did not answer")

    with pytest.raises(TimeoutError) as failed:
        start()
    assert failed.value.__notes__ == [f"a registry: {tmp_path}"]
    assert str(tmp_path) not in say_where()
