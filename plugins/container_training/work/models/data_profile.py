"""
The distribution of a data set's values, and its distance from another data set's.

It is small enough to keep.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from training_api.job.results import ResultModel

#: Ten bins of equal frequency are the custom for the index (Siddiqi).
_BINS = 10
#: Added to each count: an empty bin would make the index infinite.
_PRIOR = 0.5


class ColumnProfile(ResultModel):
    """
    The distribution of one column.

    :param edges: upper ends of the bins, inclusive and growing; the last bin is open. K values.
    :param counts: rows in each bin; K + 1 values.
    """

    edges: list[float]
    counts: list[int]


class DataProfile(ResultModel):
    """
    The distribution of all columns.

    :param features: by the column's name.
    :param labels: rows with each label.
    """

    rows: int
    features: dict[str, ColumnProfile]
    labels: dict[str, int]


class Drift(ResultModel):
    """
    How far a column is from the reference.

    :param psi: population stability index; 0 is the same distribution.
    :param limit: above it the column has drifted.
    """

    column: str
    psi: float
    limit: float

    @property
    def is_drifted(self) -> bool:
        """Whether the index is above its limit."""
        return self.psi > self.limit


def profile_of(features: Mapping[str, Sequence[float]], labels: Sequence[str]) -> DataProfile:
    """Return the profile of columns of finite numbers and of the labels; N values each. Pure."""
    columns = {}
    for name, values in features.items():
        edges = _edges(values)
        columns[name] = ColumnProfile(edges=edges, counts=_counts(values, edges))
    return DataProfile(rows=len(labels), features=columns, labels=dict(sorted(Counter(labels).items())))


def drift_from(
    reference: DataProfile, features: Mapping[str, Sequence[float]], labels: Sequence[str], *, max_psi: float
) -> list[Drift]:
    """
    Return the drift of every column that ``reference`` knows. Pure.

    And of the labels, under the name ``label``.

    A column has drifted if its index is above ``max_psi`` and above what chance alone makes of two samples of
    one distribution: on few rows the index is large by itself. The chance of one false alarm among all
    columns is 0.1 %.

    :param features: N values a column.

    Source: N. Siddiqi, "Credit Risk Scorecards" (2006), for bins and limits (0.1 a little, 0.25 a lot); B.
    Yurdakul and J. Naranjo, "Statistical properties of the population stability index", Journal of Risk Model
    Validation 14 (2020): without drift PSI / (1/N + 1/M) is chi-squared with B - 1 degrees of freedom.
    """
    names = [name for name in reference.features if name in features]
    pairs = {
        name: (reference.features[name].counts, _counts(features[name], reference.features[name].edges))
        for name in names
    }
    counted = Counter(labels)
    known = sorted(set(reference.labels) | set(counted))
    pairs["label"] = (
        [reference.labels.get(label, 0) for label in known],
        [counted[label] for label in known],
    )
    chance = 1 - 0.001 / len(pairs)
    return [
        Drift(column=name, psi=psi(before, after), limit=max(max_psi, _by_chance(before, after, chance)))
        for name, (before, after) in pairs.items()
    ]


def psi(before: Sequence[int], after: Sequence[int]) -> float:
    """
    Return the population stability index of two histograms of the same B bins. Pure.

    It is 0 or more.
    """
    old, new = _shares(before), _shares(after)
    return math.fsum((q - p) * math.log(q / p) for p, q in zip(old, new, strict=True))


def _by_chance(before: Sequence[int], after: Sequence[int], chance: float) -> float:
    """Return the value that the index stays below with ``chance`` if nothing has changed."""
    if not sum(before) or not sum(after):
        return 0.0
    return _chi_squared(max(len(before) - 1, 1), chance) * (1 / sum(before) + 1 / sum(after))


def _chi_squared(degrees: int, chance: float) -> float:
    """
    Return the quantile by Wilson and Hilferty (1931).

    At most 11 % too large for one degree, 5 % for more.
    """
    part = 2 / (9 * degrees)
    return degrees * max(1 - part + NormalDist().inv_cdf(chance) * math.sqrt(part), 0.0) ** 3


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts) + _PRIOR * len(counts)
    return [(count + _PRIOR) / total for count in counts]


def _edges(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return sorted({ordered[(len(ordered) - 1) * step // _BINS] for step in range(1, _BINS)})


def _counts(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) + 1)
    for value in values:
        counts[bisect_left(edges, value)] += 1
    return counts
