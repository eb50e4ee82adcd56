"""
From intervals and values to series over time and percentiles, in SQL of SQLite and PostgreSQL.

The database sorts and adds up, so that an answer is small whatever the number of rows. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from training_service.model.time_buckets import Buckets

#: Percentiles in twentieths.
MEDIAN, P95 = 10, 19


def later(one: sa.ColumnElement[Any], other: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the later of two times; the databases' own functions have different names."""
    return sa.case((one > other, one), else_=other)


def earlier(one: sa.ColumnElement[Any], other: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the earlier of two times."""
    return sa.case((one < other, one), else_=other)


def at_once(query: sa.SelectBase, name: str) -> sa.CTE:
    """Return ``query`` as a table that is computed once, not for each use of one of its columns."""
    return query.cte(name).prefix_with("MATERIALIZED")


def cut_to(buckets: Buckets, spans: sa.Select[Any]) -> sa.CTE:
    """
    Return the parts of ``spans`` that lie in ``buckets``.

    :param spans: has the columns ``since_us`` and ``until_us``; what does not end after it begins is left out.
    """
    whole = at_once(spans, "whole")
    since = later(whole.c.since_us, _moment(buckets.start_us))
    until = earlier(whole.c.until_us, _moment(buckets.end_us))
    others = [column for column in whole.c if column.name not in ("since_us", "until_us")]
    query = sa.select(since.label("since_us"), until.label("until_us"), *others)
    return at_once(query.where(until > since), "spans")


def bucket_starts(buckets: Buckets) -> sa.CTE:
    """Return a table of one column, ``at_us``: where each bucket begins."""
    first = sa.select(_moment(buckets.start_us).label("at_us")).cte("bucket_starts", recursive=True)
    following = first.c.at_us + buckets.step_us
    return first.union_all(sa.select(following).where(following < buckets.end_us))


def level_query(spans: sa.CTE, amounts: Sequence[str], buckets: Buckets) -> sa.Select[Any]:
    """
    Return the query for the sum of all amounts over time, by bucket.

    Its rows have ``place`` (of the bucket), and for each amount ``NAME_total`` (level x microseconds),
    ``NAME_peak``, and ``NAME_now``: the level at the end of the last bucket.

    :param spans: of ``cut_to``: from ``since_us`` until before ``until_us`` the level is higher by the amounts.
    """
    nothing = [sa.literal(0.0, sa.Double).label(name) for name in amounts]
    starts = bucket_starts(buckets)
    changes = sa.union_all(
        sa.select(spans.c.since_us.label("at_us"), *(spans.c[name] for name in amounts)),
        sa.select(spans.c.until_us, *(-spans.c[name] for name in amounts)),
        # So that no stretch between two changes lies in two buckets.
        sa.select(starts.c.at_us, *nothing),
        sa.select(_moment(buckets.end_us), *nothing),
    ).subquery("changes")
    # With the frame that is the default, changes at the same moment have the same sum: that after all of them.
    stretches = sa.select(
        changes.c.at_us,
        sa.func.lead(changes.c.at_us).over(order_by=changes.c.at_us).label("next_us"),
        *(sa.func.sum(changes.c[name]).over(order_by=changes.c.at_us).label(name) for name in amounts),
    ).subquery("stretches")
    lasted = stretches.c.next_us - stretches.c.at_us
    is_last = stretches.c.next_us == buckets.end_us
    place = ((stretches.c.at_us - buckets.start_us) // buckets.step_us).label("place")
    figures = [
        figure
        for name in amounts
        for figure in (
            sa.func.sum(stretches.c[name] * lasted).label(f"{name}_total"),
            sa.func.max(stretches.c[name]).label(f"{name}_peak"),
            sa.func.sum(sa.case((is_last, stretches.c[name]), else_=0.0)).label(f"{name}_now"),
        )
    ]
    return sa.select(place, *figures).where(lasted > 0).group_by("place")


def percentile_query(values: sa.SelectBase, by: Sequence[str]) -> sa.Select[Any]:
    """
    Return the query for the median and the 95th percentile of ``value``, by the columns ``by``.

    Its rows have ``number`` (of values), and ``p50`` and ``p95`` twenty times as large, so that they are whole:
    interpolated as by ``statistics.quantiles(..., method="inclusive")``.
    """
    given = at_once(values, "given")
    groups = [given.c[name] for name in by]
    ranked = sa.select(
        *groups,
        given.c.value,
        (sa.func.row_number().over(partition_by=groups, order_by=given.c.value) - 1).label("place"),
        sa.func.count().over(partition_by=groups).label("number"),
    ).subquery("ranked")

    def times_twenty(twentieths: int) -> sa.ColumnElement[int]:
        whole = twentieths * (ranked.c.number - 1)
        place, rest = whole // 20, whole % 20
        share = sa.case((ranked.c.place == place, 20 - rest), (ranked.c.place == place + 1, rest), else_=0)
        return sa.func.sum(ranked.c.value * share)

    names = [ranked.c[name] for name in by]
    return sa.select(
        *names,
        sa.func.max(ranked.c.number).label("number"),
        times_twenty(MEDIAN).label("p50"),
        times_twenty(P95).label("p95"),
    ).group_by(*names)


def _moment(us: int) -> sa.ColumnElement[int]:
    return sa.literal(us, sa.BigInteger)
