"""The loop's connections, and whether it may move the jobs."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from training_service.store.database import Databases
from training_service.store.leadership import Leadership, NotActive, Role


class LoopConnections:
    """
    The loop's connections to the database; on PostgreSQL its writes are fenced.

    On SQLite it may always move the jobs: a file lock keeps other services out.

    :param on_lost: called when another service has taken over the jobs: this process has to end.
    """

    def __init__(self, databases: Databases, lease_seconds: float, on_lost: Callable[[], None]) -> None:
        self._databases = databases
        self._lease_seconds = lease_seconds
        self._on_lost = on_lost
        self._leadership: Leadership | None = None
        self.has_standby = databases.loop.name == "postgresql"
        self.loop, self.intake = (
            pool.execution_options(fence=self._fence) if self.has_standby else pool
            for pool in (databases.loop, databases.intake)
        )

    @property
    def role(self) -> Role:
        """What this service does now."""
        if not self.has_standby:
            return Role.ACTIVE
        return self._leadership.role if self._leadership else Role.STANDBY

    def start(self, move: Callable[[], None], tick: Callable[[], None]) -> None:
        """Call ``move`` once this service may move the jobs, and then ``tick`` every second."""
        if not self.has_standby:
            move()
            return
        self._leadership = Leadership(
            self._databases.loop,
            self._databases.name,
            lease_seconds=self._lease_seconds,
            on_active=move,
            on_tick=tick,
            on_lost=self._on_lost,
        )
        self._leadership.start()

    def stop(self) -> None:
        """Let another service move the jobs."""
        if self._leadership:
            self._leadership.stop()

    def check(self) -> None:
        """Return if this service moves the jobs. :raises NotActive: it does not."""
        if self.has_standby:
            self._held().check()

    def _fence(self, connection: sa.Connection) -> None:
        self._held().fence(connection)

    def _held(self) -> Leadership:
        if self._leadership is None:
            raise NotActive("this service has not begun to move jobs")
        return self._leadership
