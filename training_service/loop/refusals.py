"""What jobs were refused and may get later. In memory: after a restart of the service it is all new."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from training_service.model.work import Work


@dataclass(slots=True)
class _Refused:
    since: datetime
    reasons: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRefusal:
    """
    One more refusal in a row.

    :param lasted: how long the row counts by now.
    :param is_new: none of the row had this reason.
    """

    lasted: timedelta
    is_new: bool


class Refusals:
    """Since when jobs are refused something, and for which reasons. Safe for threads, one of them a job at a time."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, type[Work]], _Refused] = {}

    def add(
        self, job_uid: str, work: type[Work], error: Exception, now: datetime, *, counts: bool = True
    ) -> RepeatedRefusal:
        """
        Note a refusal; return how it stands in its row.

        :param counts: the time since the refusal before counts; ``False``: the row lasts from now on.
        """
        refused = self._refused.setdefault((job_uid, work), _Refused(now))
        if not counts:
            refused.since = now
        reason = _reason_of(error)
        is_new = reason not in refused.reasons
        refused.reasons.add(reason)
        return RepeatedRefusal(lasted=now - refused.since, is_new=is_new)

    def forget(self, job_uid: str, *works: type[Work]) -> None:
        """End the rows of these kinds of work."""
        for work in works:
            self._refused.pop((job_uid, work), None)


def _reason_of(error: Exception) -> str:
    """Return what is the same each time; words with digits - ports, ids, times - are not."""
    words = [word for word in str(error).split() if not any(letter.isdigit() for letter in word)]
    return " ".join((type(error).__name__, *words))
