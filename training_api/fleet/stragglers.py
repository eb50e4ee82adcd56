"""Replicas that begin or end much later than their peers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

#: Less than this is how containers are started one after the other, and not worth a word.
_LEAST_SECONDS = 5.0
#: Nor is what is small beside the time that the peers ran.
_SHARE = 0.1
#: Pools whose replicas do the same work side by side, and so should begin and end together.
_PEERS = frozenset({"master-replica", "chief-replica", "worker-replica", "workerpool0", "workerpool1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """
    From the first start of a replica to its last end, in seconds since the epoch.

    ``end``: the last end, or now.
    """

    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """
    By how many seconds a replica began and ended later than its peers.

    ``None``: not noticeably.
    """

    start: float | None = None
    end: float | None = None


def find_stragglers(stretches: Mapping[str, Stretch]) -> dict[str, Delay]:
    """
    Return those that are late, by task name (``worker-replica-2``, ``workerpool1-2``).

    A replica is compared with the median of its peers: master and workers are each other's, every other pool
    has its own. It is late from 5 s, and from a tenth of the longest time that a peer ran.

    :param stretches: the replicas of one job, or of one trial.
    """
    groups: dict[str, dict[str, Stretch]] = {}
    for name, stretch in stretches.items():
        pool = name.rpartition("-")[0]
        groups.setdefault("peers" if pool in _PEERS else pool, {})[name] = stretch
    return {
        name: delay
        for group in groups.values()
        if len(group) > 1
        for name in group
        if (delay := _delay(name, group)) != Delay()
    }


def _delay(name: str, group: Mapping[str, Stretch]) -> Delay:
    mine, others = group[name], [stretch for other, stretch in group.items() if other != name]
    least = max(_LEAST_SECONDS, _SHARE * max(other.end - other.start for other in others))
    start = mine.start - median(other.start for other in others)
    end = mine.end - median(other.end for other in others)
    return Delay(start=start if start >= least else None, end=end if end >= least else None)
