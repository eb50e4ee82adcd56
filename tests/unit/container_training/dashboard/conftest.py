"""A cache of answers that does not expire in a test."""

from __future__ import annotations

import pytest


@pytest.fixture
def kept_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of the service's answers that does not expire, however slow the machine is."""
    from container_training.dashboard import shared
    from container_training.dashboard.routes import fleet as fleet_api
    from container_training.dashboard.routes import job as job_api

    reports = (window.reports for window in fleet_api.WINDOWS.values())
    for answers in (shared.ANSWERS, job_api._SLOW_ANSWERS, fleet_api._ORPHANS, *reports):
        monkeypatch.setattr(answers, "_clock", lambda: 0.0)
        monkeypatch.setattr(answers, "_kept", {})
