"""The thread that keeps the limits of what jobs reach from the agent's machine in place."""

from __future__ import annotations

import threading
from typing import Protocol

import structlog

from training_api.errors import EngineError

_SECONDS, _RETRY_SECONDS = 5.0, 1.0

logger = structlog.get_logger(__name__)


class Bridge(Protocol):
    """See ``MachineBridge``."""

    def keep(self) -> str:
        """Put in place what is missing; return the digest of the egress that holds now."""


class BridgeKeeper:
    """Keeps ``bridge``; nothing else waits for its engine, which may take a minute."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._stopping = threading.Event()
        self._digest = ""
        self._problem = ""

    @property
    def digest(self) -> str:
        """Of the egress that holds now; empty: it is not known to."""
        return self._digest

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="bridge", daemon=True).start()

    def stop(self) -> None:
        """End it; the bridge and its rules stay."""
        self._stopping.set()

    def keep(self) -> bool:
        """Put in place what is missing; whether nothing is."""
        try:
            self._digest = self._bridge.keep()
        except EngineError as error:
            self._digest = ""
            if self._problem != (problem := str(error)):
                logger.error("what jobs reach is not limited here, so none starts", reason=problem)
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
                # Without this thread no job starts here; the trace is in the log.
                self._digest, pause = "", _SECONDS
                logger.exception("the limits of what jobs reach were not kept")
