"""
The champion: the one model version that is in use, and those that were before it.

All of it is one small JSON object in the object store, the pointer, and each change is one conditional write
of it: who reads it sees the old champion or the new one, and of two who change it at the same moment one is
refused.

===========  =============================  ===========================================
state        promote                        roll back
===========  =============================  ===========================================
no pointer   the first champion             refused: there is no champion
champion     the old one is the newest of   the newest of ``previous`` is champion;
             ``previous``                   refused if there is none
===========  =============================  ===========================================
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from container_training.work.models.versions import ModelVersion
from training_api.errors import ChampionMoved, ModelUnknown
from training_api.job.results import ResultModel

#: So many champions can be rolled back one after another.
ROLLBACK_DEPTH = 5
#: So many changes are remembered.
MAX_CHANGES = 50


class ChangeKind(StrEnum):
    """What a change of the champion was."""

    PROMOTION = "PROMOTION"
    ROLLBACK = "ROLLBACK"


class Change(ResultModel):
    """
    One change of the champion.

    :param change_id: of the task that made it: a task that is run again finds its own change and makes no
        second one.
    :param champion: version id after it.
    :param before: version id before it; ``None`` for the first.
    :param by: the task, for people.
    """

    number: int
    kind: ChangeKind
    change_id: str
    champion: str
    before: str | None
    at: datetime
    by: str
    why: str


class ChampionPointer(ResultModel):
    """
    The contents of the pointer.

    :param previous: former champions, the newest first: what a rollback goes back to. One that was rolled
        back is not among them.
    :param changes: the newest last.
    """

    champion: ModelVersion
    previous: list[ModelVersion]
    changes: list[Change]

    def change_of(self, change_id: str) -> Change | None:
        """Return the remembered change of ``change_id``."""
        return next((change for change in self.changes if change.change_id == change_id), None)

    @property
    def protected(self) -> frozenset[str]:
        """Version ids that must not be deleted: the champion, and those that a rollback needs."""
        return frozenset({self.champion.version_id, *(version.version_id for version in self.previous)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    The pointer as it was read.

    :param generation: of the object; 0 if there is none. Only who names it may change it.
    """

    pointer: ChampionPointer | None = None
    generation: int = 0

    @property
    def champion(self) -> ModelVersion | None:
        """The champion, if there is one."""
        return self.pointer.champion if self.pointer else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who changes the champion, and why; see :class:`Change`."""

    change_id: str
    by: str
    at: datetime
    why: str


def promoted(pointer: ChampionPointer | None, challenger: ModelVersion, author: Author) -> ChampionPointer:
    """Return the pointer after ``challenger`` has become the champion. Pure."""
    if pointer is None:
        previous: list[ModelVersion] = []
    else:
        previous = [
            version
            for version in (pointer.champion, *pointer.previous)
            if version.version_id != challenger.version_id
        ]
    change = _change(ChangeKind.PROMOTION, pointer, challenger, author)
    return ChampionPointer(
        champion=challenger, previous=previous[:ROLLBACK_DEPTH], changes=_with(pointer, change)
    )


def rolled_back(
    pointer: ChampionPointer | None, author: Author, *, expected: str | None = None
) -> ChampionPointer:
    """
    Return the pointer after the previous champion was restored. Pure.

    :param expected: version id that must be the champion now: the one that is known to be bad.
    :raises ModelUnknown: there is no champion, or none before it.
    :raises ChampionMoved: the champion is not ``expected``.
    """
    if pointer is None:
        raise ModelUnknown("there is no champion to roll back; nothing was promoted yet")
    present = pointer.champion.version_id
    if expected and expected != present:
        raise ChampionMoved(
            f"the champion must be {expected!r} to be rolled back, and is {present!r}; look at the pointer "
            "before another rollback"
        )
    if not pointer.previous:
        raise ModelUnknown(f"there is no champion before {present!r} to go back to; promote another version")
    restored, *older = pointer.previous
    change = _change(ChangeKind.ROLLBACK, pointer, restored, author)
    return ChampionPointer(champion=restored, previous=older, changes=_with(pointer, change))


def _change(
    kind: ChangeKind, pointer: ChampionPointer | None, champion: ModelVersion, author: Author
) -> Change:
    return Change(
        number=pointer.changes[-1].number + 1 if pointer and pointer.changes else 1,
        kind=kind,
        change_id=author.change_id,
        champion=champion.version_id,
        before=pointer.champion.version_id if pointer else None,
        at=author.at,
        by=author.by,
        why=author.why,
    )


def _with(pointer: ChampionPointer | None, change: Change) -> list[Change]:
    return [*(pointer.changes if pointer else ()), change][-MAX_CHANGES:]
