"""Which jobs the loop polls, and the queue positions of those that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from training_api.states import LIVING, JobState
from training_service.store.tables import is_job, is_queued, is_trial, jobs

#: How many queued jobs the loop reads, more than can start between two iterations; and how many of those that
#: have waited too long. The next iteration follows at once and reads more.
HEAD = 50
#: From this number of jobs on, numbering the whole queue is less work than counting up to each.
_MANY = 100


def _select_active() -> sa.Select[Any]:
    begun = sorted(LIVING - {JobState.QUEUED})
    queued = sa.select(jobs.c.sequence).where(is_job, is_queued)
    head = queued.order_by(jobs.c.priority.desc(), jobs.c.sequence).limit(HEAD)
    impatient = queued.where(jobs.c.waits_until_us <= sa.bindparam("now"))
    impatient = impatient.order_by(jobs.c.waits_until_us).limit(HEAD)
    # Trials are few: a study has at most those that may run side by side.
    trials = sa.select(jobs.c.sequence).where(is_trial, is_queued)
    started = sa.select(jobs.c.sequence).where(jobs.c.state.in_(begun))
    # An index finds each part. SQLite takes a limit within a union in a subquery only.
    wanted = (sa.select(part.subquery().c.sequence) for part in (started, head, impatient, trials))
    found = sa.union_all(*wanted)
    # JSON as text: it is compared, and parsed only if it has changed.
    columns = (
        sa.cast(each, sa.Text).label(each.name) if isinstance(each.type, sa.JSON) else each for each in jobs.c
    )
    return sa.select(*columns).where(jobs.c.sequence.in_(found)).order_by(jobs.c.sequence)


def _select_places() -> sa.Select[Any]:
    place = sa.func.row_number().over(order_by=(jobs.c.priority.desc(), jobs.c.sequence))
    numbered = sa.select(jobs.c.uid, place.label("place")).where(is_job, is_queued).subquery()
    return sa.select(numbered).where(numbered.c.uid.in_(_uids))


_uids: sa.BindParameter[Any] = sa.bindparam("uids", expanding=True)
_priority: sa.BindParameter[int] = sa.bindparam("of", type_=sa.Integer)
# Built once: a statement's cache key is as much work as running it.
#: The rows of :meth:`JobStore.read_active`, with JSON as text; its parameter is ``now``, in microseconds.
ACTIVE = _select_active()
#: The rows of some jobs and trials; its parameter is ``uids``.
BY_UID = sa.select(jobs).where(jobs.c.uid.in_(sa.bindparam("uids", expanding=True)))
_PLACES = _select_places()
# By uid alone: for a state, or an order, SQLite would walk the whole queue.
_ASKED = sa.select(jobs.c.uid, jobs.c.priority, jobs.c.sequence, jobs.c.state).where(jobs.c.uid.in_(_uids))
_COUNT = sa.select(sa.func.count()).where(is_job, is_queued)
_MORE_URGENT = _COUNT.where(jobs.c.priority > _priority)
_BETWEEN = _COUNT.where(
    jobs.c.priority == _priority,
    jobs.c.sequence >= sa.bindparam("first"),
    jobs.c.sequence < sa.bindparam("end"),
)


def places_in_queue(connection: sa.Connection, uids: Sequence[str]) -> dict[str, int]:
    """Return the 1-based queue positions of the waiting jobs among ``uids``, counting rows once."""
    if len(uids) > _MANY:
        return {row.uid: row.place for row in connection.execute(_PLACES, {"uids": uids})}
    places = {}
    priority, before, first = None, 0, 0
    asked = connection.execute(_ASKED, {"uids": uids})
    waiting = (row for row in asked if row.state == JobState.QUEUED)
    for row in sorted(waiting, key=lambda row: (-row.priority, row.sequence)):
        if row.priority != priority:
            priority, first = row.priority, 0
            before = connection.execute(_MORE_URGENT, {"of": priority}).scalar_one()
        between = {"of": priority, "first": first, "end": row.sequence}
        before += connection.execute(_BETWEEN, between).scalar_one()
        first = row.sequence
        places[row.uid] = before + 1
    return places
