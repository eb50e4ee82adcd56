"""
The champion's pointer under concurrency, on the real object store.

From threads and from processes, with lost answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier

import pytest

from container_training.work.models.registry import Changed, ModelRegistry
from container_training.work.object_store import ObjectStore
from tests.integration.promotion_process import promote
from tests.support.bed.model_versions import make_author, make_version, registered
from tests.support.bed.object_store import connect
from tests.support.speed import scaled
from training_api.errors import ChampionMoved, ModelUnknown, ObjectChanged

RUNS = 6
PROCESSES = 3  # each imports Google's client
REPOSITORY = Path(__file__).parents[2]


def in_threads(url: str, folder: str, generation: int) -> list[str]:
    """Let ``RUNS`` threads promote, each its own version."""
    with ExitStack() as open_stores, ThreadPoolExecutor(RUNS) as pool:
        stores = [open_stores.enter_context(closing(connect(url))) for _ in range(RUNS)]
        names = [registered(store, folder, f"v{number}").version_id for number, store in enumerate(stores)]
        registries = [ModelRegistry(store, folder) for store in stores]
        return list(pool.map(promote, registries, names, [generation] * RUNS))


def in_processes(url: str, folder: str, generation: int) -> list[str]:
    """Let ``PROCESSES`` processes promote at the moment when all are ready."""
    command = [sys.executable, str(Path(__file__).with_name("promotion_process.py")), url, folder]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, str(number), str(generation)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                )
            )
            for number in range(PROCESSES)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        return [process.stdout.read().strip() for process in processes if process.stdout]


@pytest.mark.parametrize("has_champion", [False, True])
@pytest.mark.parametrize("race", [in_threads, in_processes])
def test_of_runs_that_promote_at_one_moment_one_does(
    race: Callable[[str, str, int], list[str]],
    has_champion: bool,
    store: ObjectStore,
    store_url: str,
    folder: str,
) -> None:
    registry = ModelRegistry(store, folder)
    generation = 0
    if has_champion:
        generation = registry.promote(
            registered(store, folder, "first"), make_author("first"), generation=0
        ).generation

    outcomes = race(store_url, folder, generation)

    assert sorted(outcomes) == ["moved"] * (len(outcomes) - 1) + ["promoted"]
    pointer = registry.read().pointer
    assert pointer is not None
    assert pointer.champion.version_id == f"v{outcomes.index('promoted')}"
    assert [version.version_id for version in pointer.previous] == (["first"] if has_champion else [])


def test_runs_that_decide_again_after_each_loss_all_get_their_turn(
    store: ObjectStore, store_url: str, folder: str
) -> None:
    all_have_read = Barrier(6)

    def until_promoted(number: int) -> int:
        version = registered(store, folder, f"v{number}")
        with closing(connect(store_url)) as own_store:
            registry = ModelRegistry(own_store, folder)
            for tries in range(1, 100):
                generation = registry.read().generation
                if tries == 1:
                    all_have_read.wait(scaled(60))  # the same: all but one lose
                try:
                    registry.promote(version, make_author(str(number)), generation=generation)
                except ChampionMoved:
                    continue
                return tries
        raise AssertionError("never promoted")

    with ThreadPoolExecutor(6) as pool:
        tries = list(pool.map(until_promoted, range(6)))

    pointer = ModelRegistry(store, folder).read().pointer
    assert pointer is not None
    assert [change.number for change in pointer.changes] == [1, 2, 3, 4, 5, 6]
    assert {change.champion for change in pointer.changes} == {f"v{number}" for number in range(6)}
    assert all(
        later.before == earlier.champion
        for earlier, later in zip(pointer.changes, pointer.changes[1:], strict=False)
    )
    assert sorted(tries)[:2] == [1, 2]


def test_a_decision_against_a_former_champion_does_not_count(store: ObjectStore, folder: str) -> None:
    registry = ModelRegistry(store, folder)
    first = registry.promote(registered(store, folder, "a"), make_author("a"), generation=0)
    second = registry.promote(registered(store, folder, "b"), make_author("b"), generation=first.generation)

    with pytest.raises(ChampionMoved, match=r"changed by dag b since it was read.*'b' as the champion"):
        registry.promote(registered(store, folder, "c"), make_author("c"), generation=first.generation)

    assert registry.read().generation == second.generation


class LosesAnswers(ObjectStore):
    """Writes, then says that somebody else did: what a client sees that sent a request twice."""

    def write_if(self, uri: str, content: bytes, content_type: str, *, generation: int) -> int:
        super().write_if(uri, content, content_type, generation=generation)
        raise ObjectChanged(f"{uri} is not at generation {generation} any more")


@pytest.mark.parametrize("act", ["promote", "roll back"])
def test_a_write_whose_answer_was_lost_is_found_again(act: str, store: ObjectStore, folder: str) -> None:
    registry = ModelRegistry(store, folder)
    first = registry.promote(registered(store, folder, "a"), make_author("a"), generation=0)
    second = registry.promote(registered(store, folder, "b"), make_author("b"), generation=first.generation)
    third = registered(store, folder, "c")
    unlucky = ModelRegistry(LosesAnswers(store._client), folder)
    acts: dict[str, Callable[[], Changed]] = {
        "promote": lambda: unlucky.promote(third, make_author("lost"), generation=second.generation),
        "roll back": lambda: unlucky.roll_back(make_author("lost")),
    }

    changed = acts[act]()
    again = acts[act]()

    assert not changed.is_new
    assert (changed.change, changed.generation) == (again.change, again.generation)
    assert changed.pointer.champion.version_id == {"promote": "c", "roll back": "a"}[act]
    assert len(changed.pointer.changes) == 3


def test_a_task_that_is_run_again_after_a_rollback_does_not_promote_again(
    store: ObjectStore, folder: str
) -> None:
    registry = ModelRegistry(store, folder)
    first = registry.promote(registered(store, folder, "a"), make_author("a"), generation=0)
    bad = registered(store, folder, "bad")
    registry.promote(bad, make_author("bad"), generation=first.generation)
    registry.roll_back(make_author("back"), expected="bad")

    again = registry.promote(bad, make_author("bad"), generation=first.generation)

    assert not again.is_new
    champion = registry.read().champion
    assert champion is not None
    assert champion.version_id == "a"


def test_of_a_promotion_and_a_rollback_at_one_moment_one_is_refused(
    store: ObjectStore, store_url: str, folder: str
) -> None:
    registry = ModelRegistry(store, folder)
    generation = 0
    for name in ("a", "b"):
        generation = registry.promote(
            registered(store, folder, name), make_author(name), generation=generation
        ).generation
    third = registered(store, folder, "c")

    def promote_third() -> bool:
        with closing(connect(store_url)) as own_store:
            own = ModelRegistry(own_store, folder)
            return _succeeds(lambda: own.promote(third, make_author("c"), generation=generation))

    def roll_back() -> bool:
        with closing(connect(store_url)) as own_store:
            own = ModelRegistry(own_store, folder)
            return _succeeds(lambda: own.roll_back(make_author("back"), expected="b"))

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(promote_third), pool.submit(roll_back)
        outcomes = (one.result(), other.result())

    assert sorted(outcomes) == [False, True]
    pointer = registry.read().pointer
    assert pointer is not None
    assert pointer.champion.version_id == ("c" if outcomes[0] else "a")


def test_a_model_that_is_gone_is_neither_promoted_nor_gone_back_to(store: ObjectStore, folder: str) -> None:
    registry = ModelRegistry(store, folder)
    first = registry.promote(registered(store, folder, "a"), make_author("a"), generation=0)
    registry.promote(registered(store, folder, "b"), make_author("b"), generation=first.generation)
    registry.delete_version("a")

    with pytest.raises(ModelUnknown, match="previous champion is not at"):
        registry.roll_back(make_author("back"))
    with pytest.raises(ModelUnknown, match="register it again"):
        registry.promote(make_version("x"), make_author("x"), generation=registry.read().generation)


def test_a_pointer_that_cannot_be_read_is_left_as_it_is(store: ObjectStore, folder: str) -> None:
    registry = ModelRegistry(store, folder)
    store.write_if_changed(registry.pointer_uri, b'{"champion": 1}', "application/json")

    with pytest.raises(ModelUnknown, match=r"champion\.json#\d+ cannot be understood"):
        registry.promote(registered(store, folder, "a"), make_author("a"), generation=0)

    assert store.read(registry.pointer_uri, 100) == b'{"champion": 1}'


def test_versions_are_copies_and_registering_again_is_the_same_version(
    store: ObjectStore, folder: str
) -> None:
    registry = ModelRegistry(store, folder)
    version = registered(store, folder, "a")
    store.write_if_changed(f"{folder}/jobs/a/model.joblib", b"other", "text/plain")

    assert store.read(version.model_uri, 10) == b"a"
    assert registry.find("a") == version
    assert registry.versions() == [version]
    with pytest.raises(ObjectChanged, match="holds something else"):
        registry.register(make_version("a"), f"{folder}/jobs/a/model.joblib")


def _succeeds(act: Callable[[], Changed]) -> bool:
    try:
        act()
    except ChampionMoved:
        return False
    return True
