"""
The watch of a service that starts: it gives up a PostgreSQL that hangs.

A proxy that hangs, or a frozen server, keeps the connection and acknowledges every byte: neither the kernel
nor the driver ever gives it up. A plain time limit would end a migration of a large database, too. So the
work and the watch have a connection each: the watch asks the server every second whether it works for this
process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

import sqlalchemy as sa

from training_api.errors import TrainingError
from training_service.store.connections import Use, connect

#: How long the database may give no sign of work, as for a service that runs (``leadership.py``).
SILENCE_SECONDS = 20.0
_TICK_SECONDS = 1.0
#: How often a lock is tried that another service has.
_LOCK_SECONDS = 0.1
#: A session that waits for its client has nothing left to do: the answer does not arrive.
_WORKS = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = :name AND datname = current_database()"
    " AND (state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'"
    " OR state_change > clock_timestamp() - make_interval(secs => :recent))"
)
#: If this process hangs, or a proxy keeps its connections, the server frees the lock; PostgreSQL 14 or newer.
_END_IF_SILENT = sa.text(
    "SELECT set_config('idle_session_timeout', :milliseconds, false)"
    " WHERE current_setting('server_version_num')::int >= 140000"
)

_Result = TypeVar("_Result")


class DatabaseSilent(TrainingError):
    """The database keeps the connection and answers nothing."""

    def __init__(self, url: sa.URL, seconds: float) -> None:
        super().__init__(
            f"the database {url.render_as_string()} keeps the connection and has answered nothing for {seconds:.0f} s; "
            "a service that starts waits no longer, so that a supervisor starts it again with new connections. "
            "Check the server, and any proxy before it"
        )


def call_while_answered(
    do: Callable[[], _Result],
    pool: sa.Engine,
    name: str,
    *,
    lock: int | None = None,
    silence_seconds: float = SILENCE_SECONDS,
) -> _Result:
    """
    Return what ``do`` returns; it may take any time in which the database works.

    On SQLite it is only called: a file does not hang like that, and has one process anyway.

    :param pool: of the connections that ``do`` uses.
    :param name: that these connections have as their ``application_name``.
    :param lock: the server's advisory lock to have meanwhile; default: none.
    :raises DatabaseSilent: the database gave no sign of work for ``silence_seconds``.
    """
    if pool.name != "postgresql":
        return do()
    return _WatchedCall(do, pool, name, lock, silence_seconds).result()


class _WatchedCall(Generic[_Result]):
    """One call; a silent database keeps its threads, which cannot be ended."""

    def __init__(
        self,
        do: Callable[[], _Result],
        pool: sa.Engine,
        name: str,
        lock: int | None,
        silence_seconds: float,
    ) -> None:
        self._do = do
        self._pool = pool
        self._name = name
        self._lock = lock
        self._silence_seconds = silence_seconds
        self._tick_seconds = min(_TICK_SECONDS, silence_seconds / 4)
        #: When the database last gave a sign, by the monotonic clock.
        self._sign_at = time.monotonic()
        self._is_given_up = False

    def result(self) -> _Result:
        asking = _on_a_thread(self._ask, "start-watch")
        while not wait([asking], timeout=self._tick_seconds).done:
            silence = time.monotonic() - self._sign_at
            if silence > self._silence_seconds:
                self._is_given_up = True
                # Once the database answers, the threads go on, and nobody else closes what they open.
                asking.add_done_callback(lambda _: self._pool.dispose())
                raise DatabaseSilent(self._pool.url, silence)
        return asking.result()

    def _ask(self) -> _Result:
        """Have the work done on another thread, and ask for signs of it meanwhile."""
        pool = connect(self._pool.url, Use(connections=1, more=0, name=f"{self._name}-watch"))
        try:
            with pool.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
                self._take_lock(session)
                # Its first connection counts as work.
                self._sign_at = time.monotonic()
                if self._is_given_up:
                    raise DatabaseSilent(self._pool.url, self._silence_seconds)
                work = _on_a_thread(self._do, "start-work")
                while not wait([work], timeout=self._tick_seconds).done:
                    if session.scalar(_WORKS, {"name": self._name, "recent": 2 * self._tick_seconds}):
                        self._sign_at = time.monotonic()
                return work.result()
        finally:
            # The session ends, and with it its lock.
            pool.dispose()

    def _take_lock(self, session: sa.Connection) -> None:
        """Wait for the lock; each answer, also that another service has it, is a sign."""
        milliseconds = str(int(self._silence_seconds * 1000))
        session.execute(_END_IF_SILENT, {"milliseconds": milliseconds})
        while self._lock and not session.scalar(sa.select(sa.func.pg_try_advisory_lock(self._lock))):
            self._sign_at = time.monotonic()
            time.sleep(_LOCK_SECONDS)


def _on_a_thread(do: Callable[[], _Result], name: str) -> Future[_Result]:
    """Call ``do`` on a thread that does not keep the process alive."""
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(do())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
