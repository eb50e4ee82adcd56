"""Stacks of one machine that share an engine, its start, packages and images."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from local_stack.processes import shared_locks
from local_stack.processes.shared_locks import engine_in_use, one_build, one_engine_start, one_installation
from tests.support.speed import scaled

ENGINE = "unix:///run/engine.sock"


def test_an_engine_that_others_use_is_not_unused(tmp_path: Path) -> None:
    with engine_in_use(ENGINE, tmp_path) as first, engine_in_use(ENGINE, tmp_path):
        assert not first()


def test_an_engine_is_unused_once_all_others_have_left(tmp_path: Path) -> None:
    with engine_in_use(ENGINE, tmp_path) as first:
        with engine_in_use(ENGINE, tmp_path):
            pass

        assert first()


def test_another_engine_does_not_count(tmp_path: Path) -> None:
    with engine_in_use(ENGINE, tmp_path) as first, engine_in_use("tcp://10.0.0.1:2376", tmp_path):
        assert first()


@pytest.mark.parametrize("lock", [one_build, one_engine_start, one_installation])
def test_the_second_stack_waits_for_the_first(
    lock: Callable[[], AbstractContextManager[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_locks, "FOLDER", tmp_path)
    is_in = threading.Event()

    def enter() -> None:
        with lock():
            is_in.set()

    second = threading.Thread(target=enter)
    with lock():
        second.start()
        assert not is_in.wait(0.2)
    second.join(scaled(60))

    assert is_in.is_set()


def test_different_locks_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_locks, "FOLDER", tmp_path)

    # The engine is installed while its start is locked.
    with one_engine_start(), one_installation():
        pass
