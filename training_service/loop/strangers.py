"""
Containers of jobs that the database does not have, e.g. since an older copy was restored.

They are kept for a while, and the service's log names them, so that an operator can stop the service in time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

import structlog

from container_engines.base import EngineView

logger = structlog.get_logger(__name__)


class Strangers:
    """
    Remembers since when each such job has been seen. Not safe for threads.

    In memory only: a restarted service waits anew.

    :param known: returns those of some uids that the database has, of jobs or trials in any state.
    :param grace: how long their containers are kept.
    """

    def __init__(self, known: Callable[[Collection[str]], Collection[str]], grace: timedelta) -> None:
        self._known = known
        self._grace = grace
        self._until: dict[str, datetime] = {}

    def kept(self, view: EngineView, active: Collection[str], now: datetime) -> frozenset[str]:
        """
        Return the uids of those whose containers are still kept.

        :param active: uids of the jobs that have not ended.
        """
        unclear = view.job_uids - set(active)
        strange = unclear - set(self._known(unclear)) if unclear else set()
        self._until = {uid: until for uid, until in self._until.items() if uid in strange}
        for uid in sorted(strange - self._until.keys()):
            self._until[uid] = now + self._grace
            logger.error(
                "the database has no job to these containers: was an older copy restored? They are removed "
                "unless the service is stopped before",
                job_uid=uid,
                containers=_names(view, uid),
                removed_at=self._until[uid].isoformat(timespec="seconds"),
            )
        due = {uid for uid, until in self._until.items() if now >= until}
        for uid in sorted(due):
            logger.warning("removing containers without a job", job_uid=uid, containers=_names(view, uid))
        return frozenset(strange - due)


def _names(view: EngineView, uid: str) -> list[str]:
    """Return the replicas with the engine's short ids; empty: only a network is left."""
    return [
        f"{each.replica.task_name} {each.container_id[:12]}" for each in view.replicas if each.job_uid == uid
    ]
