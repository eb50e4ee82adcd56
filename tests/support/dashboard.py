"""The dashboard's app, without Airflow's login."""

from __future__ import annotations

from fastapi import FastAPI

from container_training.airflow_internals.login import REQUIRES_LOGIN
from container_training.dashboard.access import rights_of
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.app import make_app


def dashboard_app(rights: Rights) -> FastAPI:
    """Return the app as a user with these rights gets it, after the login."""
    app = make_app()
    app.dependency_overrides[REQUIRES_LOGIN.dependency] = lambda: None  # type: ignore[index]
    app.dependency_overrides[rights_of] = lambda: rights
    return app
