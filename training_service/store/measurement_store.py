"""What trials reported, in the database: written once, in the order of the reports, never changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from training_api.job.tuning.measurement import Report
from training_service.store.database import writing
from training_service.store.job_rows import trial_id_of
from training_service.store.tables import jobs, measurements

_c = measurements.c
#: Ids in one query; SQLite takes 32,766 parameters, and a plan for many is no faster.
_CHUNK = 1000
#: Alternatives in one condition; SQLite's parser takes a depth of 1,000, and each looks into the index by itself.
_ALTERNATIVES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """
    A report as it is stored.

    :param source: which stream of the job's reports it came from: the run of its master (``0.0``), or a summary file.
    :param sequence: its 0-based place in that stream, all tags counted.
    """

    job_uid: str
    source: str
    sequence: int
    report: Report


class MeasurementStore:
    """Reads and writes ``measurements``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def append(self, new: Sequence[Measurement]) -> None:
        """Store ``new`` in one transaction; what is there under the same (job, source, sequence) stays as it is."""
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
            insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
            connection.execute(insert(measurements).on_conflict_do_nothing(), rows)

    def of(self, job_uid: str, tag: str) -> list[Measurement]:
        """Return all that one trial reported under ``tag``, in the order of the reports."""
        return self.of_many([job_uid], tag).get(job_uid, [])

    def of_many(self, job_uids: Iterable[str], tag: str) -> dict[str, list[Measurement]]:
        """Return the same of many trials by their uid, in one query a thousand; those without a report are left out."""
        uids = list(job_uids)
        found: dict[str, list[Measurement]] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(uids), _CHUNK):
                query = (
                    sa.select(measurements)
                    .where(_c.job_uid.in_(uids[start : start + _CHUNK]), _c.tag == tag)
                    .order_by(_c.id)
                )
                for row in connection.execute(query):
                    found.setdefault(row.job_uid, []).append(_measurement(row))
        return found

    def reporters(self, job_uid: str) -> dict[str, str]:
        """Return whose reports are a job's: the uids of itself (under an empty text), and of its trials under their ids."""
        query = sa.select(jobs.c.uid, jobs.c.study_uid, jobs.c.job_id).where(
            sa.or_(jobs.c.uid == job_uid, jobs.c.study_uid == job_uid)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return {row.uid: trial_id_of(row) for row in rows}

    def since(self, read_to: Mapping[str, int]) -> Iterator[tuple[int, str, Report]]:
        """
        Yield (id, uid, report) of what jobs or trials reported, of each in the order of its reports.

        :param read_to: uid -> id of the last report that is known; 0: none.
        """
        places = list(read_to.items())
        with self._engine.connect() as connection:
            for start in range(0, len(places), _ALTERNATIVES):
                these = places[start : start + _ALTERNATIVES]
                newer = sa.or_(*(sa.and_(_c.job_uid == uid, _c.id > known) for uid, known in these))
                query = sa.select(_c.id, _c.job_uid, _c.tag, _c.step, _c.value, _c.reported_us).where(newer)
                rows = connection.execution_options(yield_per=_CHUNK).execute(query.order_by(_c.id))
                for id_, uid, tag, step, value, reported_us in rows:
                    number = math.nan if value is None else value
                    yield id_, uid, Report(tag=tag, step=step, value=number, reported_us=reported_us)

    def latest(self, job_uids: Iterable[str], tag: str) -> dict[str, Measurement]:
        """Return the newest report of each of many trials under ``tag``, by uid; those without one are left out."""
        uids = list(job_uids)
        found: dict[str, Measurement] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(uids), _CHUNK):
                these = sa.and_(_c.job_uid.in_(uids[start : start + _CHUNK]), _c.tag == tag)
                newest = sa.select(sa.func.max(_c.id)).where(these).group_by(_c.job_uid)
                for row in connection.execute(sa.select(measurements).where(_c.id.in_(newest))):
                    found[row.job_uid] = _measurement(row)
        return found

    def tags(self, job_uid: str) -> tuple[str, ...]:
        """Return the tags under which a trial reported, sorted."""
        query = sa.select(_c.tag).distinct().where(_c.job_uid == job_uid).order_by(_c.tag)
        with self._engine.connect() as connection:
            return tuple(connection.execute(query).scalars())

    def newest(self, job_uid: str, source: str, count: int) -> list[Measurement]:
        """Return the last ``count`` reports of one stream, oldest first; from there reading goes on."""
        query = (
            sa.select(measurements)
            .where(_c.job_uid == job_uid, _c.source == source)
            .order_by(_c.sequence.desc())
            .limit(count)
        )
        with self._engine.connect() as connection:
            return [_measurement(row) for row in connection.execute(query)][::-1]


def _measurement(row: Any) -> Measurement:
    value = math.nan if row.value is None else row.value
    return Measurement(
        job_uid=row.job_uid,
        source=row.source,
        sequence=row.sequence,
        report=Report(tag=row.tag, step=row.step, value=value, reported_us=row.reported_us),
    )
