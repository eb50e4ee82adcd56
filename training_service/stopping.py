"""The HTTP server of a process that ends soon after it is told to, whatever hangs."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from types import FrameType

import structlog
import uvicorn

#: A supervisor waits ten seconds or more before it kills: docker stop, systemd, Kubernetes.
LEAVE_SECONDS = 8.0
#: Of these, for requests that are being answered.
REQUESTS_SECONDS = 3

logger = structlog.get_logger(__name__)


class StoppableServer(uvicorn.Server):
    """
    uvicorn's server; the process exits soon after it is told to.

    That is ``LEAVE_SECONDS`` after the first signal, or after ``leave``, at most.

    Nothing is lost by that: states are in the database, and lines that were not stored are read again.
    Without it the process would wait for a request, or a thread, that waits for an engine.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = threading.Event()
        #: Of the process, once it has served.
        self.exit_status = 0

    def run_until_told(self) -> bool:
        """Serve until a signal comes; whether it has started at all."""
        # Started beforehand: a handler of a signal must not start threads.
        threading.Thread(target=self._leave_in_time, name="leave", daemon=True).start()
        # uvicorn raises its signals once more when it has ended.
        with suppress(KeyboardInterrupt):
            self.run()
        return self.started

    def leave(self, status: int) -> None:
        """End with ``status`` as after a signal; safe from any thread."""
        self.exit_status = status
        self.should_exit = True
        self._told.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal."""
        super().handle_exit(sig, frame)
        self._told.set()

    def _leave_in_time(self) -> None:
        self._told.wait()
        # Never set: only the time passes, and the process may end meanwhile.
        threading.Event().wait(LEAVE_SECONDS)
        logger.warning("something hangs; left without it", after_seconds=LEAVE_SECONDS)
        logging.shutdown()
        os._exit(self.exit_status)
