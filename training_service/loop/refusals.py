"""
How long, and why, jobs were refused what they may get later.

The refusals are stored, so that a restart does not start the time anew.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from training_api.retrying import MAX_BACKOFF_SECONDS
from training_service.model.work import Work
from training_service.store.refusal_store import RefusalStore, StoredRefusal

#: The most of the time between two attempts that counts. In a longer gap the engine or the service was away.
_LONGEST_PAUSE = timedelta(seconds=2 * MAX_BACKOFF_SECONDS)
#: Limits of a stored row; a job's log has no more lines than that about its waiting.
_MOST_REASONS, _LONGEST_REASON = 32, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRefusal:
    """
    One more consecutive refusal.

    :param lasted: how long the job has been retried, since the first refusal.
    :param is_new: no earlier refusal had this reason.
    """

    lasted: timedelta
    is_new: bool


class Refusals:
    """
    How long jobs have been retried, and why they were refused.

    Safe for threads, one thread per job.
    """

    def __init__(self, store: RefusalStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, str], StoredRefusal] | None = None

    def add(
        self,
        job_uid: str,
        work: type[Work],
        error: Exception,
        *,
        asked_at: datetime,
        now: datetime,
        counts: bool = True,
    ) -> RepeatedRefusal:
        """
        Record that a request of ``asked_at`` was refused ``now``; return its place in the row.

        :param counts: whether the time before counts; ``False``: the refusals start now.
        """
        key = job_uid, work.__name__
        refused = self._refused()
        before = refused.get(key)
        lasted, reasons = timedelta(0), frozenset[str]()
        if before:
            reasons = before.reasons
            if counts:
                lasted = before.lasted + min(asked_at - before.last_at, _LONGEST_PAUSE) + (now - asked_at)
        reason = _reason_of(error)
        after = StoredRefusal(
            job_uid=job_uid,
            work=work.__name__,
            lasted=max(lasted, timedelta(0)),  # a clock may be set back
            last_at=now,
            reasons=reasons | {reason} if len(reasons) < _MOST_REASONS else reasons,
        )
        refused[key] = after
        self._store.write(after)
        return RepeatedRefusal(lasted=after.lasted, is_new=after.reasons != reasons)

    def forget(self, job_uid: str, *works: type[Work]) -> None:
        """End the consecutive refusals of these kinds of work."""
        refused = self._refused()
        known = [name for work in works if (job_uid, name := work.__name__) in refused]
        if known:
            self._store.delete(job_uid, known)
        for name in known:
            del refused[job_uid, name]

    def _refused(self) -> dict[tuple[str, str], StoredRefusal]:
        """Load at first use: a standby does not know yet what the active service will be refused."""
        with self._lock:
            if self._loaded is None:
                self._loaded = {(each.job_uid, each.work): each for each in self._store.load()}
            return self._loaded


def _reason_of(error: Exception) -> str:
    """Return the part that is always the same: no words with digits, i.e. ports, ids and times."""
    words = [word for word in str(error).split() if not any(letter.isdigit() for letter in word)]
    return " ".join((type(error).__name__, *words))[:_LONGEST_REASON]
