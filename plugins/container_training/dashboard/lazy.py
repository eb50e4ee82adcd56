"""
The app that the plugin names, made when the first request comes.

Every process of Airflow imports the plugin.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send


class LazyApp:
    """Imports and makes the dashboard in the first request, in a thread; then hands on to it."""

    def __init__(self) -> None:
        self._app: Any = None
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        app: ASGIApp = self._app or await asyncio.to_thread(self._make)
        await app(scope, receive, send)

    def _make(self) -> ASGIApp:
        with self._lock:
            if self._app is None:
                from container_training.dashboard.app import make_app

                self._app = make_app()
            made: ASGIApp = self._app
            return made
