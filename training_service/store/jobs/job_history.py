"""
What a window of time had of jobs: levels, waits, failures, costs and models, computed by the database.

No answer grows with the number of jobs. A row that cannot be read counts as far as it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from training_api.causes import Cause
from training_api.job.intent import MODEL_LABEL
from training_api.states import JobState
from training_service.model.time_buckets import Buckets
from training_service.store.jobs.job_list import of_dags
from training_service.store.jobs.machine_keys import KINDS, Machines, machines_key, table_of
from training_service.store.sql.filter_sql import InCodePoints
from training_service.store.sql.json_sql import JsonObject
from training_service.store.sql.series_sql import (
    at_once,
    bucket_starts,
    cut_to,
    earlier,
    later,
    level_query,
    percentile_query,
)
from training_service.store.tables import is_job, is_queued, jobs

#: Labels that operators give.
_OWN_PREFIX = "airflow-"
_labels = JsonObject(jobs.c.labels)
_causes = [cause.value for cause in Cause]
#: A state that this version does not know is a failure, as everywhere.
_has_failed = jobs.c.state.not_in([state.value for state in JobState if state is not JobState.FAILED])
_is_study = JsonObject(jobs.c.training_input)["hyperparameters"].as_string().is_not(None)
_left_queue = sa.func.coalesce(jobs.c.preparing_us, jobs.c.running_us)


class JobHistory:
    """Reads ``jobs``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def of(self, project: str, dags: Sequence[str] | None, since_us: int, now_us: int) -> Iterator[Past]:
        """
        Lend the past of the jobs of a project.

        :param dags: as in a search.
        :param since_us: jobs that had ended by then count nowhere but in :meth:`Past.models`.
        """
        of_project = sa.and_(is_job, jobs.c.project == project)
        # Each half by the index of ends; SQLite would check all jobs of the project for an OR.
        ends = (jobs.c.ended_us.is_(None), jobs.c.ended_us > since_us)
        halves = (sa.select(jobs.c.sequence).where(of_project, end) for end in ends)
        with self._engine.connect() as connection:
            yield Past(
                connection,
                every=sa.and_(of_project, of_dags(dags)),
                wanted=sa.and_(jobs.c.sequence.in_(sa.union_all(*halves)), of_dags(dags)),
                since_us=since_us,
                now_us=now_us,
            )


class Past:
    """The queries of one report, on one connection."""

    def __init__(
        self,
        connection: sa.Connection,
        *,
        every: sa.ColumnElement[bool],
        wanted: sa.ColumnElement[bool],
        since_us: int,
        now_us: int,
    ) -> None:
        self._connection = connection
        self._every = every
        self._wanted = wanted
        self._since_us = since_us
        self._now = sa.literal(now_us, sa.BigInteger)
        self._until = sa.func.coalesce(jobs.c.ended_us, self._now)

    def states(self) -> Sequence[Any]:
        """Return by ``state`` how many jobs there are (``number``), and how many have ended and started."""
        counts = [
            sa.func.count().label("number"),
            sa.func.count(jobs.c.ended_us).label("ended"),
            sa.func.count(jobs.c.running_us).label("started"),
        ]
        return self._rows(sa.select(jobs.c.state, *counts).where(self._wanted).group_by(jobs.c.state))

    def oldest_queued_us(self) -> int | None:
        """Return when the job was created that has been queued for longest."""
        query = sa.select(sa.func.min(jobs.c.created_us)).where(self._every, is_queued)
        found: int | None = self._connection.scalar(query)
        return found

    def machines(self, most: int) -> Sequence[Any]:
        """Return the ``most`` used machines by ``key``, with their jobs (``number``, ``started``)."""
        each = at_once(sa.select(machines_key().label("key"), jobs.c.running_us).where(self._wanted), "each")
        number, started = sa.func.count(), sa.func.count(each.c.running_us)
        query = sa.select(each.c.key, number.label("number"), started.label("started")).group_by(each.c.key)
        return self._rows(query.order_by(number.desc(), InCodePoints(each.c.key)).limit(most))

    def use(self, machines: Mapping[str, Machines], buckets: Buckets) -> Sequence[Any]:
        """Return the levels of :data:`KINDS`. A tuning job itself holds nothing: its trials do."""
        since = sa.case((_is_study, jobs.c.running_us), else_=_left_queue)
        held = at_once(self._runs(since).where(since.is_not(None)), "held")
        sizes = table_of(machines)
        amounts = [(sizes.c[kind] * held.c.runs).label(kind) for kind in KINDS]
        spans = sa.select(held.c.since_us, held.c.until_us, *amounts).join(sizes, sizes.c.key == held.c.key)
        return self._rows(level_query(cut_to(buckets, spans), KINDS, buckets))

    def queue(self, buckets: Buckets) -> Sequence[Any]:
        """Return the level ``jobs``: how many were queued."""
        left = sa.func.coalesce(_left_queue, self._until)
        spans = sa.select(
            jobs.c.created_us.label("since_us"),
            left.label("until_us"),
            sa.literal(1.0, sa.Double).label("jobs"),
        ).where(self._wanted)
        return self._rows(level_query(cut_to(buckets, spans), ["jobs"], buckets))

    def waits(self, machines: Mapping[str, Machines]) -> Sequence[Any]:
        """Return the percentiles of waits that ended in the window, by ``phase`` and ``machine``."""
        times = (jobs.c.created_us, jobs.c.preparing_us, jobs.c.running_us)
        query = sa.select(machines_key().label("key"), *times, _left_queue.label("left_us"))
        each, sizes = at_once(query.where(self._wanted), "each"), table_of(machines)
        phases = (
            ("queue", each.c.created_us, each.c.left_us),
            ("prepare", each.c.preparing_us, each.c.running_us),
        )
        waits = sa.union_all(
            *(
                sa.select(
                    sa.literal(phase).label("phase"),
                    sizes.c.name.label("machine"),
                    later(end - start, sa.literal(0, sa.BigInteger)).label("value"),
                )
                .join_from(each, sizes, sizes.c.key == each.c.key)
                .where(start.is_not(None), end > self._since_us)
                for phase, start, end in phases
            )
        )
        return self._rows(percentile_query(waits, ["phase", "machine"]))

    def failures(self) -> Sequence[Any]:
        """Return by ``cause`` the number of failures and the last job, the most common cause first."""
        stored = JsonObject(jobs.c.reason)["cause"].as_string()
        cause = sa.case((stored.in_(_causes), stored), else_=Cause.UNKNOWN.value)
        each = at_once(
            sa.select(cause.label("cause"), jobs.c.job_id, *_end_columns()).where(
                self._wanted, jobs.c.ended_us.is_not(None), _has_failed
            ),
            "each",
        )
        number = sa.func.count().over(partition_by=each.c.cause).label("number")
        ranked = sa.select(*each.c, number, _place_by_end(each, each.c.cause)).subquery("ranked")
        last = sa.select(ranked).where(ranked.c.place == 1)
        return self._rows(last.order_by(ranked.c.number.desc(), InCodePoints(ranked.c.cause)))

    def costs(
        self, machines: Mapping[str, Machines], label: str, buckets: Buckets, most: int
    ) -> Sequence[Any]:
        """
        Return the cost by bucket (``at_us``) and value of ``label`` (``name``): ``amount``.

        :param most: so many values, the most expensive; ``None`` is all others.
        """
        group = sa.func.coalesce(_labels[label].as_string(), sa.literal("", sa.Text))
        runs = self._runs(jobs.c.running_us, group.label("name")).where(jobs.c.running_us.is_not(None))
        held = at_once(runs, "held")
        sizes = table_of({key: each for key, each in machines.items() if each.rate is not None})
        spans = cut_to(
            buckets,
            sa.select(
                held.c.since_us, held.c.until_us, held.c.name, (sizes.c.rate * held.c.runs).label("rate")
            ).join(sizes, sizes.c.key == held.c.key),
        )
        # Without a price it is NULL, which would come first on PostgreSQL.
        total = sa.func.coalesce(sa.func.sum(spans.c.rate * (spans.c.until_us - spans.c.since_us)), 0.0)
        place = sa.func.row_number().over(order_by=(total.desc(), InCodePoints(spans.c.name)))
        ranked = sa.select(spans.c.name, total.label("total"), place.label("place")).group_by(spans.c.name)
        groups = at_once(ranked, "groups")
        starts = bucket_starts(buckets)
        end = starts.c.at_us + buckets.step_us
        lasted = earlier(spans.c.until_us, end) - later(spans.c.since_us, starts.c.at_us)
        parts = (
            sa.select(
                sa.case((groups.c.place <= most, groups.c.name), else_=None).label("name"),
                starts.c.at_us,
                (spans.c.rate * lasted / 1e6).label("amount"),
            )
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
        query = sa.select(own.c.key).select_from(jobs.join(own, sa.true())).where(self._wanted)
        query = query.where(sa.func.substr(own.c.key, 1, len(_OWN_PREFIX)) != _OWN_PREFIX)
        query = query.group_by(own.c.key).order_by(sa.func.count().desc(), InCodePoints(own.c.key))
        return self._connection.execute(query.limit(most)).scalars().all()

    def models(self, most: int) -> Sequence[Any]:
        """
        Return the last job that succeeded (``good``) and the last that failed, by ``model``.

        However long ago; the last one that ended comes first.

        :param most: so many jobs.
        """
        model, is_good = _labels[MODEL_LABEL].as_string(), jobs.c.state == JobState.SUCCEEDED.value
        each = at_once(
            sa.select(model.label("model"), jobs.c.job_id, is_good.label("good"), *_end_columns()).where(
                self._every,
                jobs.c.ended_us.is_not(None),
                jobs.c.state != JobState.CANCELLED.value,
                model != "",
            ),
            "each",
        )
        place = _place_by_end(each, each.c.model, each.c.good)
        ranked = sa.select(*each.c, place).subquery("ranked")
        last = sa.select(ranked).where(ranked.c.place == 1)
        return self._rows(last.order_by(ranked.c.ended_us.desc()).limit(most))

    def _runs(self, since: sa.ColumnElement[Any], *more: sa.ColumnElement[Any]) -> Any:
        """Return when jobs ran, on what, and how many of their runs were side by side on average."""
        trial = jobs.alias("trial")
        ran = sa.func.sum(sa.func.coalesce(trial.c.ended_us, self._now) - trial.c.running_us)
        # That it is a trial is said without a parameter, so that the index of trials serves.
        of_study = sa.and_(trial.c.study_uid > sa.literal_column("''"), trial.c.study_uid == jobs.c.uid)
        together = sa.cast(sa.select(sa.func.coalesce(ran, 0)).where(of_study).scalar_subquery(), sa.Double)
        elapsed = self._until - jobs.c.running_us
        runs = sa.case(
            (sa.not_(_is_study), 1.0),
            (elapsed > 0, together / sa.cast(elapsed, sa.Double)),
            else_=0.0,
        )
        return sa.select(
            since.label("since_us"),
            self._until.label("until_us"),
            machines_key().label("key"),
            runs.label("runs"),
            *more,
        ).where(self._wanted)

    def _rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        return self._connection.execute(query).all()


def _end_columns() -> tuple[sa.ColumnElement[Any], ...]:
    return jobs.c.ended_us, jobs.c.created_us, jobs.c.sequence


def _place_by_end(table: sa.FromClause, *groups: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return ``place``: 1 for the job of a group that ended last."""
    order = [table.c[column.name].desc() for column in _end_columns()]
    return sa.func.row_number().over(partition_by=groups, order_by=order).label("place")
