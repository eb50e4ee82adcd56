"""What ``python -m tests.suite`` does before it runs a part."""

from __future__ import annotations

from pathlib import Path

from tests.suite.__main__ import _has_the_checkout


def test_a_second_run_in_the_same_checkout_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "local" / "test-results.lock"

    assert [_has_the_checkout(lock), _has_the_checkout(lock)] == [True, False]
    assert lock.stat().st_mode & 0o077 == 0
