"""What ``python -m tests.suite`` does before it runs a part."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from tests.suite import __main__ as suite
from tests.suite.flaky import Repetition


def test_a_second_run_in_the_same_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "LOCK", tmp_path / "test-results.lock")

    with FileLock(suite.LOCK):
        assert suite.main(["--quick"]) == 2

    assert "another run uses this checkout" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--keep-results"]], ids=str)
def test_the_results_of_the_run_before_stay_only_if_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    results = tmp_path / "test-results"
    results.mkdir()
    (results / "docker.xml").touch()
    monkeypatch.setattr(suite, "LOCK", tmp_path / "test-results.lock")
    monkeypatch.setattr(suite, "RESULTS", results)
    monkeypatch.setattr(suite, "KEPT", results / "kept")
    monkeypatch.setattr(suite, "_clean_up", lambda: None)
    monkeypatch.setattr(suite.signal, "signal", lambda *_: None)  # pytest's own stay
    done = Repetition(results=[], status=0, seconds=1.0, peak_memory_bytes=0, is_loaded=False)
    monkeypatch.setattr(suite, "_run", lambda *_, **__: done)

    assert suite.main(["--only", "compose", *options]) == 0

    assert (results / "docker.xml").exists() is bool(options)
