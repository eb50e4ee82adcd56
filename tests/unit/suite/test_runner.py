"""The suite's runner: no part is forgotten."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.suite.parts import Part
from tests.suite.runner import Place, Runner


def test_a_part_that_could_not_be_run_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: said.append(str(told.exc_value)))
    runner = Runner(Place(results=tmp_path / "absent", scratch=tmp_path), [], {})

    with pytest.raises(RuntimeError, match=r"did not run to its end.*: quick"):
        runner.run([Part(name="quick", selection=(), budget_seconds=1)])

    assert "absent/quick.log" in said[0]
