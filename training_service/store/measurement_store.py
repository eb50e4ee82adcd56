"""Reports of trials in the database: written once, in their order, never changed."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from training_api.job.tuning.measurement import Report
from training_api.job.tuning.search_terms import Goal
from training_service.store.database import writing
from training_service.store.jobs.job_rows import trial_id_of
from training_service.store.sql.conflicts import conflict_insert
from training_service.store.tables import is_of, jobs, measurements

_c = measurements.c
#: Ids in one query; SQLite takes 32,766 parameters, and a plan for many is no faster.
_CHUNK = 1000
#: Alternatives in one condition; SQLite's parser allows a depth of 1,000, and each searches the index.
_ALTERNATIVES = 100


#: Tags that are listed of a trial that did not report its metric.
MAX_TAGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """
    A report as it is stored.

    :param source: the stream of the job's reports: the run of its master (``0.0``), or a summary file.
    :param sequence: its 0-based place in that stream, counting all tags.
    :param id: grows with every stored report; 0: not stored yet.
    """

    job_uid: str
    source: str
    sequence: int
    report: Report
    id: int = field(default=0, compare=False)


class MeasurementStore:
    """Reads and writes ``measurements``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def append(self, new: Sequence[Measurement]) -> None:
        """Store ``new`` in one transaction; skip those whose (job, source, sequence) is there."""
        if not new:
            return
        rows = [
            {
                "job_uid": one.job_uid,
                "source": one.source,
                "sequence": one.sequence,
                "tag": one.report.tag,
                "step": one.report.step,
                "value": None if math.isnan(one.report.value) else one.report.value,
                "reported_us": one.report.reported_us,
            }
            for one in new
        ]
        with writing(self._engine).begin() as connection:
            connection.execute(
                conflict_insert(connection.dialect.name, measurements).on_conflict_do_nothing(), rows
            )

    def reporters(self, job_uid: str) -> dict[str, str]:
        """Return the uids of a job's reporters by id: its trials, and itself under an empty text."""
        query = sa.select(jobs.c.uid, jobs.c.study_uid, jobs.c.job_id).where(is_of(job_uid))
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return {row.uid: trial_id_of(row) for row in rows}

    def since(self, read_to: Mapping[str, int]) -> Iterator[tuple[int, str, Report]]:
        """
        Yield (id, uid, report) of jobs or trials, for each of them in order.

        :param read_to: uid -> id of the last known report; 0: none.
        """
        places = list(read_to.items())
        with self._engine.connect() as connection:
            for start in range(0, len(places), _ALTERNATIVES):
                these = places[start : start + _ALTERNATIVES]
                newer = sa.or_(*(sa.and_(_c.job_uid == uid, _c.id > known) for uid, known in these))
                query = sa.select(_c.id, _c.job_uid, _c.tag, _c.step, _c.value, _c.reported_us).where(newer)
                with connection.execute(query.order_by(_c.id).execution_options(yield_per=_CHUNK)) as rows:
                    for id_, uid, tag, step, value, reported_us in rows:
                        number = math.nan if value is None else value
                        yield id_, uid, Report(tag=tag, step=step, value=number, reported_us=reported_us)

    def latest(self, job_uids: Iterable[str], tag: str) -> dict[str, Measurement]:
        """Return the newest report under ``tag`` of each trial that has one, by uid."""
        return {uid: last[-1] for uid, last in self.last_of_many(job_uids, tag, 1).items()}

    def best(self, job_uids: Iterable[str], tag: str, goal: Goal) -> dict[str, Measurement]:
        """
        Return the best report under ``tag`` of each trial, by uid; the first one of several.

        A trial without a finite value has none. All reports of the trials are read.
        """
        uids = list(job_uids)
        found: dict[str, Measurement] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(uids), _CHUNK):
                parameters = {"uids": uids[start : start + _CHUNK], "tag": tag}
                for row in connection.execute(_BEST[goal], parameters):
                    found[row.job_uid] = _measurement(row)
        return found

    def last_of_many(self, job_uids: Iterable[str], tag: str, count: int) -> dict[str, list[Measurement]]:
        """Return each trial's last ``count`` reports under ``tag``, oldest first; read no others."""
        uids = list(job_uids)
        found: dict[str, list[Measurement]] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(uids), _CHUNK):
                parameters = {"uids": uids[start : start + _CHUNK], "tag": tag, "before": count - 1}
                for row in connection.execute(_LAST, parameters):
                    found.setdefault(row.job_uid, []).append(_measurement(row))
        return found

    def newer(self, job_uid: str, tag: str, after: int, count: int) -> list[Measurement]:
        """Return the next ``count`` reports under ``tag`` of a job or trial, after id ``after``."""
        parameters = {"uid": job_uid, "tag": tag, "after": after, "count": count}
        with self._engine.connect() as connection:
            return [_measurement(row) for row in connection.execute(_NEWER, parameters)]

    def tags(self, job_uid: str) -> tuple[str, ...]:
        """Return the first ``MAX_TAGS`` of the tags under which a trial reported, sorted."""
        with self._engine.connect() as connection:
            return tuple(connection.execute(_TAGS, {"uid": job_uid}).scalars())

    def newest(self, job_uid: str, source: str, count: int) -> list[Measurement]:
        """Return the last ``count`` reports of one stream, oldest first; reading resumes from there."""
        query = (
            sa.select(measurements)
            .where(_c.job_uid == job_uid, _c.source == source)
            .order_by(_c.sequence.desc())
            .limit(count)
        )
        with self._engine.connect() as connection:
            return [_measurement(row) for row in connection.execute(query)][::-1]


def _select_last() -> sa.Select[Any]:
    """Start at the index's end for each trial: counting, or sorting, would read all its reports."""
    other = measurements.alias("other")
    of_trial = (other.c.job_uid == jobs.c.uid, other.c.tag == sa.bindparam("tag"))
    first = sa.select(other.c.id).where(*of_trial).order_by(other.c.id.desc())
    first = first.offset(sa.bindparam("before", type_=sa.Integer)).limit(1).correlate(jobs)
    since = sa.func.coalesce(first.scalar_subquery(), 0)
    these = sa.and_(_c.job_uid == jobs.c.uid, _c.tag == sa.bindparam("tag"), _c.id >= since)
    trials = jobs.c.uid.in_(sa.bindparam("uids", expanding=True))
    return sa.select(measurements).join_from(jobs, measurements, these).where(trials).order_by(_c.id)


def _select_tags() -> sa.Select[Any]:
    """Step from each tag to the next one, instead of through all reports."""
    of_trial = _c.job_uid == sa.bindparam("uid")
    tags = sa.select(sa.func.min(_c.tag).label("tag")).where(of_trial).cte("tags", recursive=True)
    following = sa.select(sa.func.min(_c.tag)).where(of_trial, _c.tag > tags.c.tag).scalar_subquery()
    tags = tags.union_all(sa.select(following).where(tags.c.tag.is_not(None)))
    return sa.select(tags.c.tag).where(tags.c.tag.is_not(None)).limit(MAX_TAGS)


def _select_best(goal: Goal) -> sa.Select[Any]:
    best = sa.func.min(_c.value) if goal is Goal.MINIMIZE else sa.func.max(_c.value)
    these = (_c.job_uid.in_(sa.bindparam("uids", expanding=True)), _c.tag == sa.bindparam("tag"))
    is_finite = _c.value.between(-sys.float_info.max, sys.float_info.max)
    values = (
        sa.select(_c.job_uid, best.label("value")).where(*these, is_finite).group_by(_c.job_uid).subquery()
    )
    is_best = sa.and_(_c.job_uid == values.c.job_uid, _c.value == values.c.value)
    first = sa.select(sa.func.min(_c.id)).join_from(measurements, values, is_best).where(*these)
    return sa.select(measurements).where(_c.id.in_(first.group_by(_c.job_uid)))


_LAST = _select_last()
_BEST = {goal: _select_best(goal) for goal in Goal}
_TAGS = _select_tags()
_NEWER = (
    sa.select(measurements)
    .where(_c.job_uid == sa.bindparam("uid"), _c.tag == sa.bindparam("tag"), _c.id > sa.bindparam("after"))
    .order_by(_c.id)
    .limit(sa.bindparam("count", type_=sa.Integer))
)


def _measurement(row: Any) -> Measurement:
    value = math.nan if row.value is None else row.value
    return Measurement(
        id=row.id,
        job_uid=row.job_uid,
        source=row.source,
        sequence=row.sequence,
        report=Report(tag=row.tag, step=row.step, value=value, reported_us=row.reported_us),
    )
