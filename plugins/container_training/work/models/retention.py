"""Which old models and snapshots of data may go."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from container_training.work.models.champion import ChampionPointer
from training_api.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """
    A model version or a snapshot in the object store.

    :param name: version id, or snapshot id.
    :param uses: snapshot ids that it needs.
    """

    name: str
    created_at: datetime
    uses: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """
    What is kept apart from the champion and those that a rollback needs, which always are.

    :param keep: newest versions, however old.
    :param min_age: what is younger is kept: a run that is under way may need it.
    """

    keep: int = 10
    min_age: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        if self.keep < 0 or self.min_age < timedelta(0):
            raise InvalidArgument(
                f"keep and min_age must be >= 0, got {self.keep} and {self.min_age}; to keep nothing old, write 0"
            )


def expired_versions(
    pointer: ChampionPointer | None, versions: Collection[Stored], rule: RetentionRule, now: datetime
) -> list[str]:
    """
    Return the ids of the versions to delete, the oldest first. Pure.

    Without a pointer nothing is deleted: a champion that cannot be seen cannot be spared.
    """
    if pointer is None:
        return []
    by_age = sorted(versions, key=lambda version: (version.created_at, version.name))
    newest = {version.name for version in by_age[-rule.keep :]} if rule.keep else set()
    return [
        version.name
        for version in by_age
        if version.name not in pointer.protected
        and version.name not in newest
        and now - version.created_at > rule.min_age
    ]


def expired_snapshots(
    kept: Collection[Stored], snapshots: Collection[Stored], rule: RetentionRule, now: datetime
) -> list[str]:
    """Return the ids of snapshots that no kept version was made from, oldest first. Pure."""
    used = frozenset().union(*(version.uses for version in kept))
    return [
        snapshot.name
        for snapshot in sorted(snapshots, key=lambda snapshot: (snapshot.created_at, snapshot.name))
        if snapshot.name not in used and now - snapshot.created_at > rule.min_age
    ]
