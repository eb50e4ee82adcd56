"""Stores of an engine's networks that stay as they are; test_local_stack.py has a real one."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from local_stack.parts import engine_networks
from local_stack.parts.engine_networks import finish_removals


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "network" / "files" / "local-kv.db"
    store.parent.mkdir(parents=True)
    return store


def test_an_engine_that_never_ran_has_no_store(tmp_path: Path) -> None:
    assert finish_removals(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 8192, b"\xff" * 8192, b"x" * 100])
def test_a_store_that_cannot_be_read_is_left_to_the_engine(store: Path, content: bytes) -> None:
    store.write_bytes(content)

    assert finish_removals(store.parents[2]) == []

    assert store.read_bytes() == content


def test_a_store_that_an_engine_has_open_is_left_alone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_networks, "_PATIENCE_SECONDS", 0.05)
    store.write_bytes(b"unread")
    with store.open("rb") as engines:
        fcntl.flock(engines, fcntl.LOCK_EX)

        assert finish_removals(store.parents[2]) == []
