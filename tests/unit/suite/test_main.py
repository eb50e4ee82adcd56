"""What ``python -m tests.suite`` does before it runs a part."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from tests.suite import __main__ as suite


def test_a_second_run_in_the_same_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "LOCK", tmp_path / "test-results.lock")

    with FileLock(suite.LOCK):
        assert suite.main(["--quick"]) == 2

    assert "another run uses this checkout" in capsys.readouterr().err
