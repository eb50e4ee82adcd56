"""
When work that the engine refused is retried.

The pauses are in memory only: after a restart of the service they start anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from training_api.retrying import backoff_seconds
from training_service.model.work import Work

#: A job, and a kind of work for it: while one kind pauses, another may be done.
_Key = tuple[str, type[Work]]


@dataclass(frozen=True, slots=True)
class _Pause:
    failures: int
    until: datetime


class Pauses:
    """
    The pauses between attempts at failing work, which grow with each failure in a row.

    Not safe for threads.

    :param first_seconds: the first pause; 0: no pauses.
    :param jitter: random, from 0 to 1.
    """

    def __init__(self, first_seconds: float, jitter: Callable[[], float]) -> None:
        self._first_seconds = first_seconds
        self._jitter = jitter
        self._pauses: dict[_Key, _Pause] = {}

    def begin(self, job_uid: str, work: type[Work], error: Exception, now: datetime) -> None:
        """Pause longer than the last time, because the work has failed."""
        before = self._pauses.get((job_uid, work))
        failures = before.failures + 1 if before else 1
        seconds = backoff_seconds(failures, self._first_seconds, error, self._jitter())
        self._pauses[job_uid, work] = _Pause(failures, now + timedelta(seconds=seconds))

    def end(self, job_uid: str, work: type[Work]) -> None:
        """Forget the failures, because the work is done."""
        self._pauses.pop((job_uid, work), None)

    def is_paused(self, job_uid: str, work: type[Work], now: datetime) -> bool:
        """Whether the work has failed and must not be retried yet."""
        pause = self._pauses.get((job_uid, work))
        return pause is not None and now < pause.until

    def keep(self, job_uids: Collection[str]) -> None:
        """Forget all jobs but these."""
        self._pauses = {key: pause for key, pause in self._pauses.items() if key[0] in job_uids}
