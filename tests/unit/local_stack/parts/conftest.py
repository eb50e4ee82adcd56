"""Time limits of probes that a busy machine keeps."""

from __future__ import annotations

import pytest

from local_stack.parts import object_store, part
from tests.support.speed import scaled


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers take long: they come from threads of the test's own process."""
    monkeypatch.setattr(part, "PROBE_TIMEOUT_SECONDS", scaled(60))
    monkeypatch.setattr(object_store, "_USE_TIMEOUT_SECONDS", scaled(60))
