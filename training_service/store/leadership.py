"""
Which of several services on one PostgreSQL is active and moves the jobs; others stand by.

Three mechanisms decide, each for another kind of failure (docs/adr/0025-active-and-standby.md):

- A lock of the server that belongs to one session: it is free as soon as its holder's process ends.
- A lease, renewed every second. A holder that is frozen or cut off keeps its session, so a standby ends the
sessions
  of a holder whose lease is old.
- A token, one higher at each takeover. Each write of the loop checks it in its transaction, each action on
the engine
  just before. A service that was taken over can do nothing more, however late it finds out.

All times are the server's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
import structlog

from training_service.store.tables import leadership

#: Of PostgreSQL's advisory locks: who moves the jobs. Any number, as long as all services share it.
_LOCK = 8472
_TICK_SECONDS = 1.0
#: Longer than a renewal takes with the limits of its statement and its connection. A request that takes
#: longer hangs for good, e.g. behind a proxy that keeps the connection but forwards nothing. The kernel's
#: limits do not detect that.
_SILENCE_SECONDS = 20.0
_c = leadership.c
_NOW = sa.func.clock_timestamp()

logger = structlog.get_logger(__name__)


class Role(StrEnum):
    """What a service does besides answering requests."""

    ACTIVE = "active"  #: it moves the jobs
    STANDBY = "standby"  #: it takes over if the active one fails


class NotActive(sa.exc.SQLAlchemyError):
    """The write was refused: another service moves the jobs now."""


class Leadership:
    """
    One service's part in this; safe for threads.

    :param database: the pool of the loop, whose sessions have ``name`` as their ``application_name``.
    :param lease_seconds: age of a lease from which its holder counts as dead.
    :param on_active: called once, on a separate thread, when this service becomes the active one. It may
        take longer than a lease: the lease is renewed meanwhile.
    :param on_tick: called every second while it is active, once ``on_active`` has returned.
    :param on_lost: called once when it was taken over, or when its connection hangs. It never becomes active
        again: its process has to end.
    :param silence_seconds: how long one renewal may last before its connection counts as hung.
    """

    def __init__(
        self,
        database: sa.Engine,
        name: str,
        *,
        lease_seconds: float,
        on_active: Callable[[], None],
        on_tick: Callable[[], None],
        on_lost: Callable[[], None],
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> None:
        self._silence_seconds = max(silence_seconds, 2 * lease_seconds)
        self._database = database
        self._name = name
        self._lease_seconds = lease_seconds
        self._on_active = on_active
        self._on_tick = on_tick
        self._on_lost = on_lost
        self._token: int | None = None
        self._is_lost = False
        self._session: sa.Connection | None = None
        #: When the thread began to wait for the database, by the monotonic clock.
        self._asks_since: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)
        self._beginning = threading.Thread(target=self._begin, name="leadership-begin", daemon=True)
        self._has_begun = threading.Event()

    @property
    def role(self) -> Role:
        """What this service does now, as far as it knows."""
        return Role.ACTIVE if self._token is not None and not self._is_lost else Role.STANDBY

    def start(self) -> None:
        """Stand by, on a thread."""
        self._thread.start()
        threading.Thread(target=self._watch, name="leadership-watch", daemon=True).start()

    def stop(self) -> None:
        """Let the next one take over at once; call it when nothing more is written."""
        self._stopping.set()
        self._thread.join(timeout=10)
        if self._beginning.is_alive():
            self._beginning.join(timeout=10)

    def fence(self, connection: sa.Connection) -> None:
        """
        Hold off any takeover until this write transaction has ended.

        :raises NotActive: this service is not the active one.
        """
        self._find(connection, sa.select(_c.token).with_for_update(read=True, key_share=True))

    def check(self) -> None:
        """Return if this service is the active one. :raises NotActive: it is not."""
        with self._database.connect() as connection:
            self._find(connection, sa.select(_c.token))

    def _find(self, connection: sa.Connection, query: sa.Select[Any]) -> None:
        token = self._token
        if token is None or connection.execute(query.where(_c.token == token)).first() is None:
            raise NotActive("another training service on this database moves the jobs now")

    def _run(self) -> None:
        while not self._is_lost:
            self._asks_since = time.monotonic()
            try:
                self._look()
            except sa.exc.SQLAlchemyError as error:
                # A lock that was held is lost now, or will be found to be; until then the token decides.
                logger.warning("the database does not answer", role=self.role.value, reason=str(error))
                self._drop_session()
            except Exception:
                # A bug must not end the renewals: the jobs would lose their loop for nothing.
                logger.exception("the look at the lease failed")
            self._asks_since = None
            if self._stopping.wait(_TICK_SECONDS):
                break
        self._drop_session()

    def _watch(self) -> None:
        """
        Give this service up when its connection hangs.

        Other threads' connections hang, too, and threads cannot be ended: a new process has new connections.
        """
        while not self._is_lost and not self._stopping.wait(_TICK_SECONDS):
            since = self._asks_since
            if since is not None and time.monotonic() - since > self._silence_seconds:
                logger.error(
                    "the database keeps the connection and answers nothing; this service ends",
                    seconds=round(time.monotonic() - since),
                )
                self._lose()

    def _look(self) -> None:
        """Renew the lease, or try to get it."""
        session = self._open_session()
        has_lock = self._try_lock(session)
        if self._token is None:
            if has_lock:
                self._take_over(session)
            else:
                self._end_a_holder_that_is_silent(session)
            return
        mine = sa.update(leadership).where(_c.token == self._token)
        if session.execute(mine.values(renewed_at=_NOW)).rowcount == 0:
            logger.error("another service has taken over and moves the jobs now; this one ends")
            self._lose()
            return
        if self._has_begun.is_set():
            self._on_tick()

    def _take_over(self, session: sa.Connection) -> None:
        before = session.execute(sa.select(leadership)).one()
        # A holder that is cut off may still have an open transaction, which would hold the token's row.
        self._end_sessions(session, before.holder)
        values = {"token": before.token + 1, "holder": self._name, "renewed_at": _NOW}
        seen = sa.update(leadership).where(_c.token == before.token)
        if session.execute(seen.values(**values)).rowcount == 0:
            return
        self._token = before.token + 1
        logger.info("this service moves the jobs now", token=self._token)
        # To adopt many jobs may take longer than a lease, or hang with the database.
        self._beginning.start()

    def _begin(self) -> None:
        try:
            self._on_active()
        except Exception:
            logger.exception("the loop could not be started; this service ends")
            self._lose()
        else:
            self._has_begun.set()

    def _end_a_holder_that_is_silent(self, session: sa.Connection) -> None:
        age = sa.extract("epoch", _NOW - _c.renewed_at)
        holder = session.execute(
            sa.select(_c.holder).where(_c.holder != "", age > self._lease_seconds)
        ).scalar()
        if holder:
            ended = self._end_sessions(session, holder)
            logger.warning(
                "the active service is silent; its sessions are ended",
                holder=holder,
                sessions=ended,
                lease_seconds=self._lease_seconds,
            )

    def _end_sessions(self, session: sa.Connection, holder: str) -> int:
        if not holder or holder == self._name:
            return 0
        ended = session.execute(
            sa.text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE application_name = :holder AND datname = current_database()"
            ),
            {"holder": holder},
        )
        return int(ended.scalar_one())

    def _try_lock(self, session: sa.Connection) -> bool:
        """Whether the session has the lock; it may have it already."""
        if session.info.get("has_lock"):
            return True
        session.info["has_lock"] = bool(session.scalar(sa.select(sa.func.pg_try_advisory_lock(_LOCK))))
        return bool(session.info["has_lock"])

    def _open_session(self) -> sa.Connection:
        if self._session is None:
            self._session = self._database.connect().execution_options(isolation_level="AUTOCOMMIT")
            self._session.exec_driver_sql(f"SET statement_timeout = {int(self._lease_seconds * 500)}")
        return self._session

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            # Not returned to the pool: the lock is free when the session has ended.
            session.invalidate()
            session.close()

    def _lose(self) -> None:
        self._is_lost = True
        self._on_lost()
