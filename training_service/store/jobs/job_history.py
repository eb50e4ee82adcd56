"""
What a window of time had of jobs, computed by the database.

Levels, waits, failures, costs and models. No answer grows with the number of jobs. A row that cannot be read
counts as far as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from training_api.causes import Cause
from training_api.job.labels import MODEL_LABEL
from training_api.states import JobState
from training_service.store.jobs.job_list import of_dags
from training_service.store.jobs.machine_keys import KINDS, Machines, machines_key, table_of
from training_service.store.sql.filter_sql import InCodePoints
from training_service.store.sql.json_sql import JsonObject
from training_service.store.sql.series_sql import (
    at_once,
    bucket_starts,
    later,
    level_query,
    percentile_query,
    spans_in,
)
from training_service.store.tables import is_job, jobs

#: Labels that operators give.
_OWN_PREFIX = "airflow-"
_EMPTY = sa.literal("", sa.Text)
_labels = JsonObject(jobs.c.labels)
#: A state that this version does not know is a failure, as everywhere.
_has_failed = jobs.c.state.not_in([state.value for state in JobState if state is not JobState.FAILED])
_is_study = JsonObject(jobs.c.spec)["study"].as_string().is_not(None)
_left_queue = sa.func.coalesce(jobs.c.preparing_us, jobs.c.running_us)
_ends = (jobs.c.ended_us, jobs.c.created_us, jobs.c.sequence)


class JobHistory:
    """
    The queries of one report, on one connection.

    :param dags: as in a search.
    :param since_us: jobs that had ended by then count nowhere but in :meth:`models`.
    """

    def __init__(
        self, connection: sa.Connection, project: str, dags: Sequence[str] | None, since_us: int, now_us: int
    ) -> None:
        of_project = sa.and_(is_job, jobs.c.project == project)
        # Each half by the index of ends; SQLite would check all jobs of the project for an OR.
        ends = (jobs.c.ended_us.is_(None), jobs.c.ended_us > since_us)
        halves = (sa.select(jobs.c.sequence).where(of_project, end) for end in ends)
        self._connection = connection
        self._every = sa.and_(of_project, of_dags(dags))
        self._wanted = sa.and_(jobs.c.sequence.in_(sa.union_all(*halves)), of_dags(dags))
        self._since_us = since_us
        self._now = sa.literal(now_us, sa.BigInteger)
        self._until = sa.func.coalesce(jobs.c.ended_us, self._now)

    def states(self) -> Sequence[Any]:
        """Return jobs by ``state``: how many there are, ended and started, and the ``oldest_us``."""
        figures = (
            sa.func.count().label("number"),
            sa.func.count(jobs.c.ended_us).label("ended"),
            sa.func.count(jobs.c.running_us).label("started"),
            sa.func.min(jobs.c.created_us).label("oldest_us"),
        )
        return self._rows(sa.select(jobs.c.state, *figures).where(self._wanted).group_by(jobs.c.state))

    def machines(self, most: int) -> Sequence[Any]:
        """Return the ``most`` used machines by ``key``, with their jobs (``number``, ``started``)."""
        each = at_once(sa.select(machines_key().label("key"), jobs.c.running_us).where(self._wanted), "each")
        figures = (sa.func.count().label("number"), sa.func.count(each.c.running_us).label("started"))
        query = sa.select(each.c.key, *figures).group_by(each.c.key)
        return self._rows(query.order_by(sa.func.count().desc(), InCodePoints(each.c.key)).limit(most))

    def use(self, machines: Machines, buckets: range) -> Sequence[Any]:
        """Return the levels of ``KINDS``. A tuning job itself holds nothing: its trials do."""
        since = sa.case((_is_study, jobs.c.running_us), else_=_left_queue)
        spans = spans_in(buckets, self._runs(since, machines))
        return self._rows(level_query(spans, KINDS, buckets))

    def queue(self, buckets: range) -> Sequence[Any]:
        """Return the level ``jobs``: how many were queued."""
        left = sa.func.coalesce(_left_queue, self._until).label("until_us")
        each = sa.select(jobs.c.created_us.label("since_us"), left, sa.literal(1.0, sa.Double).label("jobs"))
        return self._rows(level_query(spans_in(buckets, each.where(self._wanted)), ["jobs"], buckets))

    def waits(self, machines: Machines) -> Sequence[Any]:
        """Return the percentiles of waits that ended in the window, by ``phase`` and ``machine``."""
        times = (jobs.c.created_us, jobs.c.preparing_us, jobs.c.running_us, _left_queue.label("left_us"))
        each = at_once(sa.select(machines_key().label("key"), *times).where(self._wanted), "each")
        sizes = table_of(machines)

        def waits(phase: str, start: sa.ColumnElement[Any], end: sa.ColumnElement[Any]) -> sa.Select[Any]:
            value = later(end - start, sa.literal(0, sa.BigInteger)).label("value")
            query = sa.select(sa.literal(phase).label("phase"), sizes.c.name.label("machine"), value)
            query = query.join_from(each, sizes, sizes.c.key == each.c.key)
            return query.where(start.is_not(None), end > self._since_us)

        queue = waits("queue", each.c.created_us, each.c.left_us)
        prepare = waits("prepare", each.c.preparing_us, each.c.running_us)
        return self._rows(percentile_query(sa.union_all(queue, prepare), ["phase", "machine"]))

    def failures(self) -> Sequence[Any]:
        """Return by ``cause`` the number of failures and the last job, the most common cause first."""
        stored = JsonObject(jobs.c.reason)["cause"].as_string()
        cause = sa.case((stored.in_([each.value for each in Cause]), stored), else_=Cause.UNKNOWN.value)
        has_failed = sa.and_(self._wanted, jobs.c.ended_us.is_not(None), _has_failed)
        last = _last_of_groups(sa.select(cause.label("cause"), jobs.c.job_id).where(has_failed), "cause")
        return self._rows(sa.select(last).order_by(last.c.number.desc(), InCodePoints(last.c.cause)))

    def costs(self, machines: Machines, label: str, buckets: range, most: int) -> Sequence[Any]:
        """
        Return the cost by bucket (``at_us``) and value of ``label`` (``name``): ``amount``.

        :param machines: those that have a price.
        :param most: so many values, the most expensive; ``None`` is all others.
        """
        group = sa.func.coalesce(_labels[label].as_string(), _EMPTY)
        spans = spans_in(buckets, self._runs(jobs.c.running_us, machines, group))
        total = sa.func.sum(spans.c.rate * (spans.c.until_us - spans.c.since_us))
        place = sa.func.row_number().over(order_by=(total.desc(), InCodePoints(spans.c.name)))
        ranked = sa.select(spans.c.name, total.label("total"), place.label("place")).group_by(spans.c.name)
        groups, starts = at_once(ranked, "groups"), bucket_starts(buckets)
        # What lies in one bucket, as a span of it.
        end = starts.c.at_us + buckets.step
        until = sa.case((spans.c.until_us < end, spans.c.until_us), else_=end)
        amount = spans.c.rate * (until - later(spans.c.since_us, starts.c.at_us)) / 1e6
        name = sa.case((groups.c.place <= most, groups.c.name), else_=None).label("name")
        parts = (
            sa.select(name, starts.c.at_us, amount.label("amount"))
            .join_from(spans, groups, groups.c.name == spans.c.name)
            .join(starts, sa.and_(starts.c.at_us < spans.c.until_us, end > spans.c.since_us))
            .where(groups.c.total > 0)
            .subquery("parts")
        )
        by = (parts.c.name, parts.c.at_us)
        return self._rows(sa.select(*by, sa.func.sum(parts.c.amount).label("amount")).group_by(*by))

    def label_keys(self, most: int) -> Sequence[str]:
        """Return the ``most`` used keys of labels that people gave."""
        own = sa.func.json_each(_labels).table_valued("key", name="own")
        query = sa.select(own.c.key).select_from(jobs.join(own, sa.true()))
        query = query.where(self._wanted, sa.func.substr(own.c.key, 1, len(_OWN_PREFIX)) != _OWN_PREFIX)
        query = query.group_by(own.c.key).order_by(sa.func.count().desc(), InCodePoints(own.c.key))
        return self._connection.execute(query.limit(most)).scalars().all()

    def models(self, most: int, since_us: int = 0) -> Sequence[Any]:
        """
        Return the last job that succeeded (``good``) and the last that failed, by ``model``.

        However long ago; the last one that ended comes first.

        :param most: so many jobs.
        :param since_us: only of jobs that ended later, which an index finds.
        """
        model = _labels[MODEL_LABEL].as_string()
        is_good = jobs.c.state == JobState.SUCCEEDED.value
        query = sa.select(model.label("model"), is_good.label("good"), jobs.c.job_id).where(
            self._every, jobs.c.ended_us > since_us, jobs.c.state != JobState.CANCELLED.value, model != ""
        )
        last = _last_of_groups(query, "model", "good")
        return self._rows(sa.select(last).order_by(last.c.ended_us.desc()).limit(most))

    def _runs(
        self, since: sa.ColumnElement[Any], machines: Machines, name: sa.ColumnElement[str] = _EMPTY
    ) -> sa.Select[Any]:
        """
        Return spans of what jobs held of ``machines``.

        A tuning job holds as many as its trials, side by side, held on average.
        """
        trial = jobs.alias("trial")
        ran = sa.func.sum(sa.func.coalesce(trial.c.ended_us, self._now) - trial.c.running_us)
        # That it is a trial is said without a parameter, so that the index of trials serves.
        of_study = sa.and_(trial.c.study_uid > sa.literal_column("''"), trial.c.study_uid == jobs.c.uid)
        together = sa.cast(sa.select(sa.func.coalesce(ran, 0)).where(of_study).scalar_subquery(), sa.Double)
        elapsed = self._until - jobs.c.running_us
        beside = sa.case((elapsed > 0, together / sa.cast(elapsed, sa.Double)), else_=0.0)
        columns = (
            since.label("since_us"),
            self._until.label("until_us"),
            name.label("name"),
            machines_key().label("key"),
            sa.case((_is_study, beside), else_=1.0).label("runs"),
        )
        held = at_once(sa.select(*columns).where(self._wanted, since.is_not(None)), "held")
        sizes = table_of(machines)
        levels = ((sizes.c[kind] * held.c.runs).label(kind) for kind in (*KINDS, "rate"))
        query = sa.select(held.c.since_us, held.c.until_us, held.c.name, *levels)
        return query.join_from(held, sizes, sizes.c.key == held.c.key)

    def _rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        return self._connection.execute(query).all()


def _last_of_groups(query: sa.Select[Any], *by: str) -> sa.Subquery:
    """Return the job of each group that ended last, with the ``number`` of its group."""
    each = at_once(query.add_columns(*_ends), "each")
    groups = [each.c[name] for name in by]
    order = [each.c[column.name].desc() for column in _ends]
    place = sa.func.row_number().over(partition_by=groups, order_by=order).label("place")
    number = sa.func.count().over(partition_by=groups).label("number")
    ranked = sa.select(*each.c, number, place).subquery("ranked")
    return sa.select(ranked).where(ranked.c.place == 1).subquery("last")
