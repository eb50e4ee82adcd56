"""The pointer's states: promotions and rollbacks in any order keep what a rollback needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.work.models.champion import (
    MAX_CHANGES,
    ROLLBACK_DEPTH,
    ChampionPointer,
    ChangeKind,
    promoted,
    rolled_back,
)
from tests.support.bed.model_versions import make_author, make_version
from training_api.errors import ChampionMoved, ModelUnknown


def champions(*version_ids: str) -> ChampionPointer:
    pointer: ChampionPointer | None = None
    for version_id in version_ids:
        pointer = promoted(pointer, make_version(version_id), make_author(version_id))
    assert pointer is not None
    return pointer


def test_a_rollback_undoes_a_promotion() -> None:
    pointer = rolled_back(champions("a", "b"), make_author("back"))

    assert pointer.champion.version_id == "a"
    assert pointer.previous == []
    assert [(change.number, change.kind, change.before, change.champion) for change in pointer.changes] == [
        (1, ChangeKind.PROMOTION, None, "a"),
        (2, ChangeKind.PROMOTION, "a", "b"),
        (3, ChangeKind.ROLLBACK, "b", "a"),
    ]


def test_a_version_that_was_rolled_back_is_not_gone_back_to() -> None:
    pointer = promoted(
        rolled_back(champions("a", "b"), make_author("back")), make_version("c"), make_author("c")
    )

    assert [version.version_id for version in pointer.previous] == ["a"]


def test_there_is_nothing_to_go_back_to_before_the_first_and_the_second_champion() -> None:
    with pytest.raises(ModelUnknown, match="nothing was promoted"):
        rolled_back(None, make_author())
    with pytest.raises(ModelUnknown, match="no champion before 'a'"):
        rolled_back(champions("a"), make_author())


def test_only_the_champion_that_is_meant_is_rolled_back() -> None:
    with pytest.raises(ChampionMoved, match=r"must be 'b'.*is 'c'"):
        rolled_back(champions("a", "b", "c"), make_author(), expected="b")


@given(
    st.lists(st.one_of(st.sampled_from("abcdefgh"), st.just("")), min_size=1, max_size=80).filter(
        lambda steps: steps[0] != ""
    )
)
def test_after_any_steps_the_pointer_is_whole(steps: list[str]) -> None:
    pointer = champions(steps[0])
    for number, version_id in enumerate(steps[1:]):
        author = make_author(str(number))
        if version_id:
            pointer = promoted(pointer, make_version(version_id), author)
        elif pointer.previous:
            expected = pointer.previous[0]
            pointer = rolled_back(pointer, author)
            assert pointer.champion == expected
        else:
            continue
        assert pointer.change_of(str(number)) == pointer.changes[-1]

    names = [version.version_id for version in pointer.previous]
    assert len(set(names)) == len(names) <= ROLLBACK_DEPTH
    assert pointer.champion.version_id not in names
    assert pointer.protected == {pointer.champion.version_id, *names}
    assert len(pointer.changes) <= MAX_CHANGES
    assert pointer.changes[-1].champion == pointer.champion.version_id
    numbers = [change.number for change in pointer.changes]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert ChampionPointer.model_validate_json(pointer.model_dump_json()) == pointer
