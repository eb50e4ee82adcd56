"""
One thread that reads one container's log into its batch.

A thread that waits for a hung engine cannot be ended. It is abandoned: what it still reads is dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import sqlalchemy as sa
import structlog

from container_engines.base import Engine
from training_api.errors import EngineError, EngineUnavailable
from training_service.intake.log_batch import LogBatch

_SETTLE_SECONDS = 0.05
_RETRY_SECONDS = 0.5
#: A log that is not read to its end so long after the exit never will be: the engine keeps 512 MB of it.
_WHOLE_SECONDS = 900.0

logger = structlog.get_logger(__name__)


class LogReading:
    """
    Reads until the log is stored to its last line, or ``stopping`` is set.

    :param has_ended: whether the container has; only a log that is read after that is whole.
    :param on_refused: called each time that the database refuses lines; they are stored later.
    :param is_last: a reading before was abandoned; the log is read as it is now, without following.
    """

    def __init__(
        self,
        engine: Engine,
        container: str,
        batch: LogBatch,
        stopping: threading.Event,
        has_ended: Callable[[], bool],
        on_refused: Callable[[sa.exc.SQLAlchemyError], None] = lambda _: None,
        *,
        is_last: bool = False,
    ) -> None:
        self.container = container
        self.batch = batch
        #: Whether it reads what there is, without following.
        self.is_last = is_last
        self._engine = engine
        self._stopping = stopping
        self._has_ended = has_ended
        self._on_refused = on_refused
        self._begun_at = time.monotonic()
        #: Since when the thread waits for the engine; ``None``: it has something else to do.
        self._waits_since: float | None = self._begun_at

    def is_hung(self, ended_at: float, seconds: float) -> bool:
        """Whether nothing came for ``seconds`` since ``ended_at``, or the end never comes."""
        now, waits_since = time.monotonic(), self._waits_since
        is_quiet = waits_since is not None and now - max(waits_since, ended_at) > seconds
        return is_quiet or now - max(self._begun_at, ended_at) > _WHOLE_SECONDS

    def run(self) -> bool:
        """Return whether the log is stored to its last line; ``False``: it was stopped or abandoned."""
        while not self._stopping.is_set() and not self.batch.is_closed:
            # Asked before reading: only a log that is read after the exit is known to be whole.
            self.is_last = self.is_last or self._has_ended()
            try:
                was_read = self._read()
                if self.is_last and was_read:
                    self.batch.finish()
                    return not self.batch.is_closed
            except sa.exc.SQLAlchemyError as error:
                # The batch keeps its lines; the log is read on when the database takes them. Nothing hangs.
                was_read, self._begun_at = False, time.monotonic()
                self._on_refused(error)
            self._stopping.wait(_SETTLE_SECONDS if was_read else _RETRY_SECONDS)
        return False

    def _read(self) -> bool:
        """
        Store what there is until the stream ends; whether the engine could be asked.

        Only at the last time does a line without an end count; before, it would be stored cut.
        """
        waits_since, self._waits_since = self._waits_since, None
        self.batch.rewind()
        self._waits_since = waits_since or time.monotonic()
        try:
            for line in self._engine.read_logs(self.container, self.batch.since_ns, follow=not self.is_last):
                self._waits_since = None
                if line.is_whole or self.is_last:
                    self.batch.add(line)
                if self._stopping.is_set() or self.batch.is_closed:
                    break
                self._waits_since = time.monotonic()
        except EngineUnavailable:
            self._wait_for_the_engine()
            return False
        except EngineError as error:
            # The container is gone and its log with it: there is nothing left to wait for.
            logger.warning("log lost", container=self.container, reason=str(error))
        finally:
            self.batch.flush()
        return True

    def _wait_for_the_engine(self) -> None:
        """An engine that is away gives its log when it is back; one that only keeps its log hangs."""
        waits_since, self._waits_since = self._waits_since, None
        try:
            self._engine.ping()
        except EngineError:
            return
        self._waits_since = waits_since
