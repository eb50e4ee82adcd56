"""What is deleted: never the champion, never what a rollback needs, never what is young."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.work.models.champion import ChampionPointer
from container_training.work.models.retention import (
    RetentionRule,
    Stored,
    expired_snapshots,
    expired_versions,
)
from tests.support.bed.model_versions import NOW, make_version
from tests.unit.container_training.work.models.test_champion import champions

OLD = timedelta(days=30)


def stored(name: str, age: timedelta = OLD, *uses: str) -> Stored:
    return Stored(name=name, created_at=NOW - age, uses=frozenset(uses))


def test_the_oldest_that_nobody_needs_go() -> None:
    versions = [stored(str(number), timedelta(days=100 - number)) for number in range(6)]

    gone = expired_versions(champions("0", "2"), versions, RetentionRule(keep=2), NOW)

    assert gone == ["1", "3"]


def test_without_a_pointer_nothing_goes() -> None:
    assert expired_versions(None, [stored("a")], RetentionRule(keep=0), NOW) == []


def test_what_is_young_stays() -> None:
    rule = RetentionRule(keep=0, min_age=timedelta(days=7))
    versions = [stored("young", timedelta(days=7)), stored("old", timedelta(days=7, seconds=1))]

    assert expired_versions(champions("x"), versions, rule, NOW) == ["old"]


def test_a_rule_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="must be >= 0"):
        RetentionRule(keep=-1)


def test_snapshots_of_kept_versions_stay() -> None:
    kept = [stored("v", OLD, "s1")]
    snapshots = [stored("s1"), stored("s2"), stored("s3", timedelta(0))]

    assert expired_snapshots(kept, snapshots, RetentionRule(), NOW) == ["s2"]


@given(
    ages=st.lists(st.integers(0, 60), max_size=20),
    keep=st.integers(0, 10),
    min_days=st.integers(0, 30),
    former=st.lists(st.integers(0, 19), min_size=1, max_size=6, unique=True),
)
def test_whatever_the_rule_the_champion_and_its_predecessors_stay(
    ages: list[int], keep: int, min_days: int, former: list[int]
) -> None:
    pointer = ChampionPointer(
        champion=make_version(str(former[0])),
        previous=[make_version(str(name)) for name in former[1:]],
        changes=[],
    )
    versions = [stored(str(number), timedelta(days=age)) for number, age in enumerate(ages)]

    gone = set(
        expired_versions(pointer, versions, RetentionRule(keep=keep, min_age=timedelta(days=min_days)), NOW)
    )

    assert not gone & pointer.protected
    assert len(versions) - len(gone) >= min(keep, len(versions))
    assert all(ages[int(name)] > min_days for name in gone)
