"""The thread that keeps the agents of a swarm's machines in place."""

from __future__ import annotations

import threading

import structlog

from container_engines.base import Engine
from training_api.errors import EngineError

#: A machine may have joined whose pull wants a fresh login; others may have removed the agents.
_SECONDS = 10.0
_RETRY_SECONDS = 5.0

logger = structlog.get_logger(__name__)


class AgentWatch:
    """Starts the agents with the service, and again when they are gone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._problem = ""

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="agents", daemon=True).start()

    def stop(self) -> None:
        """End it; the agents go on."""
        self._stopping.set()

    def keep(self) -> bool:
        """Make or update what is missing; whether the engine could."""
        try:
            self._engine.confine()
        except EngineError as error:
            if self._problem != (problem := str(error)):
                logger.warning("agents of machines not kept, trying again", reason=problem)
            self._problem = problem
            return False
        self._problem = ""
        return True

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                pause = _SECONDS if self.keep() else _RETRY_SECONDS
            except Exception:
                # Without this thread no machine that joins gets an agent; the trace is in the log.
                pause = _RETRY_SECONDS
                logger.exception("agents of machines were not kept")
