"""Test beds that share an engine."""

from __future__ import annotations

from pathlib import Path

from local_stack.processes.shared_locks import engine_in_use

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
