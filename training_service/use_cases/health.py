"""Whether the service is well: alive, and ready to run jobs. No HTTP words."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import sqlalchemy as sa
import structlog

from training_api.errors import EngineError
from training_service.model.heartbeat import Heartbeat
from training_service.model.probe import Probe
from training_service.store.leadership import Role

_T = TypeVar("_T")
#: The parts, as they are named in answers and metrics.
STORE, ENGINE, DISK, LOOP = "store", "engine", "disk", "loop"

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """The health of one part of the service; ``reason``: what is wrong, empty if nothing is."""

    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is well."""
        return not self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """
    The health of all parts.

    :param engine_version: empty if the engine does not answer.
    """

    parts: dict[str, Part]
    engine_version: str = ""

    @property
    def ok(self) -> bool:
        """Whether the service can take and run jobs."""
        return all(part.ok for part in self.parts.values())


class Health:
    """
    Checks the parts within a deadline; safe for threads.

    :param store: reads and writes the database, or raises.
    :param engine: the engine's version; raises ``EngineError``.
    :param disk: why no job is admitted; empty: jobs are admitted.
    :param loop_problem: the error of the loop's last iteration; empty: none.
    :param live_seconds: the greatest age of the last good iteration; a standby has none.
    :param role: whether this service moves the jobs.
    :param deadline_seconds: how long a whole answer may take.
    """

    def __init__(
        self,
        *,
        store: Callable[[], None],
        engine: Callable[[], str],
        disk: Callable[[], str],
        loop_problem: Callable[[], str],
        heartbeat: Heartbeat,
        live_seconds: float,
        role: Callable[[], Role] = lambda: Role.ACTIVE,
        deadline_seconds: float = 3.0,
    ) -> None:
        self._store = Probe(store, deadline_seconds)
        self._engine = Probe(engine, deadline_seconds)
        self._disk = Probe(disk, deadline_seconds)
        self._loop_problem = loop_problem
        self._heartbeat = heartbeat
        self._live_seconds = live_seconds
        self._role = role
        self._deadline_seconds = deadline_seconds

    @property
    def role(self) -> Role:
        """Whether this service moves the jobs, or waits to."""
        return self._role()

    def liveness(self) -> Part:
        """Return whether the loop runs; an unresponsive engine or database is not its fault."""
        age = self._heartbeat.age_seconds
        if age <= self._live_seconds or self.role is Role.STANDBY:
            return Part()
        return Part(
            f"the loop's last good iteration was {age:.0f} s ago, more than {self._live_seconds:g} s "
            "(TRAINING_LIVE_SECONDS); restart the service, running containers go on"
        )

    def readiness(self) -> Readiness:
        """Return the health of all parts; unresponsive ones take at most the deadline together."""
        deadline = monotonic() + self._deadline_seconds
        store, engine, disk = self._store.begin(), self._engine.begin(), self._disk.begin()
        version, engine_part = self._asked(engine, deadline, "")
        _, store_part = self._asked(store, deadline, None)
        disk_problem, disk_part = self._asked(disk, deadline, "")
        parts = {
            STORE: store_part,
            ENGINE: engine_part,
            DISK: Part(f"no job is admitted: {disk_problem}") if disk_problem else disk_part,
            LOOP: self._loop(),
        }
        return Readiness(parts=parts, engine_version=version)

    def is_ok(self) -> dict[str, bool]:
        """Return by name whether each part is well."""
        return {name: part.ok for name, part in self.readiness().parts.items()}

    def _loop(self) -> Part:
        if problem := self._loop_problem():
            return Part(f"no job moves: its last iteration ended in {problem}; the service's log says more")
        return self.liveness()

    def _asked(self, answer: Future[_T], deadline: float, otherwise: _T) -> tuple[_T, Part]:
        try:
            return answer.result(max(deadline - monotonic(), 0)), Part()
        except TimeoutError:
            return otherwise, Part(f"no answer within {self._deadline_seconds:g} s")
        except EngineError as error:
            return otherwise, Part(str(error))
        except Exception as error:
            # Anyone may call this, and a database's errors name its host and user: log them only.
            logger.warning("a part of the service does not work", reason=str(error))
            cause = getattr(error, "orig", None) if isinstance(error, sa.exc.DBAPIError) else None
            return otherwise, Part(f"{type(cause or error).__name__}; the service's log has the reason")
