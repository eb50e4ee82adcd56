"""
Series over time and percentiles, in SQL that SQLite and PostgreSQL understand alike.

The database sorts and adds up, so that an answer is small whatever the number of rows. Times are
microseconds. Buckets are a ``range`` of where each begins; the last one is shorter where the range stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa


def buckets_until(end_us: int, window_seconds: int, step_seconds: int) -> range:
    """
    Return the buckets of the window before ``end_us``. Pure.

    They begin at multiples of the step since the epoch, so that they stay while time goes on.
    """
    step_us = step_seconds * 1_000_000
    return range((end_us - window_seconds * 1_000_000) // step_us * step_us, end_us, step_us)


def later(one: sa.ColumnElement[Any], other: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the later of two times; the databases' own functions have different names."""
    return sa.case((one > other, one), else_=other)


def at_once(query: sa.SelectBase, name: str) -> sa.CTE:
    """Return ``query`` as a table that is computed once, not for each use of one of its columns."""
    return query.cte(name).prefix_with("MATERIALIZED")


def spans_in(buckets: range, spans: sa.Select[Any]) -> sa.CTE:
    """
    Return the parts of ``spans`` that lie in ``buckets``.

    :param spans: has ``since_us`` and ``until_us``, and more; what does not end after it begins is left out.
    """
    whole = at_once(spans, "whole")
    since, end = later(whole.c.since_us, _moment(buckets.start)), _moment(buckets.stop)
    until = sa.case((whole.c.until_us < end, whole.c.until_us), else_=end)
    others = [column for column in whole.c if column.name not in ("since_us", "until_us")]
    query = sa.select(since.label("since_us"), until.label("until_us"), *others)
    return at_once(query.where(until > since), "spans")


def bucket_starts(buckets: range) -> sa.CTE:
    """Return a table of one column, ``at_us``: where each bucket begins."""
    first = sa.select(_moment(buckets.start).label("at_us")).cte("bucket_starts", recursive=True)
    following = first.c.at_us + buckets.step
    return first.union_all(sa.select(following).where(following < buckets.stop))


def level_query(spans: sa.CTE, amounts: Sequence[str], buckets: range) -> sa.Select[Any]:
    """
    Return the query for the sum of all amounts over time, by bucket.

    Its rows have ``place`` (of the bucket), and for each amount ``NAME_total`` (level x microseconds),
    ``NAME_peak``, and ``NAME_now``: the level at the end of the last bucket.

    :param spans: of ``spans_in``: from ``since_us`` until before ``until_us`` the level is higher.
    """
    nothing = [sa.literal(0.0, sa.Double) for _ in amounts]
    changes = sa.union_all(
        sa.select(spans.c.since_us.label("at_us"), *(spans.c[name] for name in amounts)),
        sa.select(spans.c.until_us, *(-spans.c[name] for name in amounts)),
        # So that no stretch between two changes lies in two buckets.
        sa.select(bucket_starts(buckets).c.at_us, *nothing),
        sa.select(_moment(buckets.stop), *nothing),
    ).subquery("changes")
    # By default, changes at the same moment have the same sum: that after all of them.
    levels = [sa.func.sum(changes.c[name]).over(order_by=changes.c.at_us).label(name) for name in amounts]
    following = sa.func.lead(changes.c.at_us).over(order_by=changes.c.at_us)
    stretches = sa.select(changes.c.at_us, following.label("next_us"), *levels).subquery("stretches")
    lasted = stretches.c.next_us - stretches.c.at_us
    figures = []
    for name in amounts:
        level = stretches.c[name]
        at_end = sa.case((stretches.c.next_us == buckets.stop, level), else_=0.0)
        figures += [
            sa.func.sum(level * lasted).label(f"{name}_total"),
            sa.func.max(level).label(f"{name}_peak"),
            sa.func.sum(at_end).label(f"{name}_now"),
        ]
    place = (stretches.c.at_us - buckets.start) // buckets.step
    return sa.select(place.label("place"), *figures).where(lasted > 0).group_by("place")


def percentile_query(values: sa.SelectBase, by: Sequence[str]) -> sa.Select[Any]:
    """
    Return the query for the median and the 95th percentile of ``value``.

    They are interpolated as by ``statistics.quantiles(..., method="inclusive")``. Its rows have ``number``
    (of values), and ``p50`` and ``p95`` twenty times as large, so that they are whole.

    :param by: the columns that tell groups apart.
    """
    given = at_once(values, "given")
    groups = [given.c[name] for name in by]
    place = sa.func.row_number().over(partition_by=groups, order_by=given.c.value) - 1
    number = sa.func.count().over(partition_by=groups)
    ranked = sa.select(*given.c, place.label("place"), number.label("number")).subquery("ranked")
    cuts = []
    for name, twentieths in (("p50", 10), ("p95", 19)):
        whole = twentieths * (ranked.c.number - 1)
        first, rest = whole // 20, whole % 20
        share = sa.case((ranked.c.place == first, 20 - rest), (ranked.c.place == first + 1, rest), else_=0)
        cuts.append(sa.func.sum(ranked.c.value * share).label(name))
    names = [ranked.c[name] for name in by]
    return sa.select(*names, sa.func.max(ranked.c.number).label("number"), *cuts).group_by(*names)


def _moment(us: int) -> sa.ColumnElement[int]:
    return sa.literal(us, sa.BigInteger)
