"""The looks at a hold-out under concurrency and kills, on the real object store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from container_training.work.models.looks import Looks
from container_training.work.models.promotion import PromotionRule
from container_training.work.models.registry import ModelRegistry
from container_training.work.object_store import ObjectStore
from tests.integration.judging_process import judge
from tests.support.bed.model_versions import make_author, make_contender, registered
from tests.support.bed.object_store import connect
from training_api.errors import EvaluationInvalid, ModelUnknown, ObjectChanged

REPOSITORY = Path(__file__).parents[2]


def looks_of(store: ObjectStore, folder: str) -> Looks:
    content = store.read(ModelRegistry(store, folder).looks_uri, 10**6)
    return Looks() if content is None else Looks.model_validate_json(content)


def started(url: str, folder: str, name: str, moment: str) -> subprocess.Popen[str]:
    """Return a process that is ready to decide."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("judging_process.py")), url, folder, name, moment],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(("moment", "kept"), [("before", 0), ("after", 1)])
def test_a_task_that_is_killed_beside_its_write_takes_one_look_in_the_end(
    store: ObjectStore, store_url: str, folder: str, moment: str, kept: int
) -> None:
    process = started(store_url, folder, "a", moment)
    process.communicate("")
    after_kill = looks_of(store, folder)
    decision = judge(store, folder, "a")

    assert process.returncode == -signal.SIGKILL
    assert len(after_kill.judgements) == kept
    assert decision.look == 1
    assert looks_of(store, folder).taken == {"unknown": 1}


def test_processes_that_decide_at_one_moment_take_a_look_each(
    store: ObjectStore, store_url: str, folder: str
) -> None:
    with ExitStack() as stack:
        processes = [
            stack.enter_context(started(store_url, folder, name, "never")) for name in ("a", "b", "c")
        ]
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        found = [process.stdout.read().strip() for process in processes if process.stdout]

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(found) == ["1", "2", "3"]
    assert looks_of(store, folder).taken == {"unknown": 3}


def test_tries_of_one_task_at_one_moment_take_one_look(
    store: ObjectStore, store_url: str, folder: str
) -> None:
    def act(name: str) -> int | None:
        with closing(connect(store_url)) as own_store:
            return judge(own_store, folder, name).look

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(act, ["a", "b", "a", "b", "a", "b", "c", "d"]))

    assert len({*found}) == 4
    assert found[0] == found[2] == found[4]
    assert looks_of(store, folder).taken == {"unknown": 4}


class LosesAnswers(ObjectStore):
    """Writes, then says that somebody else did: what a client sees that sent a request twice."""

    def write_if(self, uri: str, content: bytes, content_type: str, *, generation: int) -> int:
        super().write_if(uri, content, content_type, generation=generation)
        raise ObjectChanged(f"{uri} is not at generation {generation} any more")


def test_a_look_whose_answer_was_lost_is_found_again(store: ObjectStore, folder: str) -> None:
    assert judge(LosesAnswers(store._client), folder, "a").look == 1
    assert looks_of(store, folder).taken == {"unknown": 1}


def test_a_promotion_and_a_rollback_leave_the_looks_as_they_are(store: ObjectStore, folder: str) -> None:
    registry = ModelRegistry(store, folder)
    generation = registry.promote(registered(store, folder, "a"), make_author("a"), generation=0).generation
    judge(store, folder, "b")
    before = looks_of(store, folder)

    registry.promote(registered(store, folder, "b"), make_author("b"), generation=generation)
    registry.roll_back(make_author("back"))

    assert looks_of(store, folder) == before
    assert judge(store, folder, "c").look == 2


def test_looks_that_cannot_be_read_are_left_as_they_are(store: ObjectStore, folder: str) -> None:
    uri = ModelRegistry(store, folder).looks_uri
    store.write_if_changed(uri, b'{"taken": []}', "application/json")

    with pytest.raises(ModelUnknown, match=r"looks\.json#\d+ cannot be understood.*counted anew"):
        judge(store, folder, "a")

    assert store.read(uri, 100) == b'{"taken": []}'


def test_what_cannot_be_compared_writes_nothing(store: ObjectStore, folder: str) -> None:
    with pytest.raises(EvaluationInvalid):
        ModelRegistry(store, folder).judge(
            make_contender("a", "11"),
            make_contender("b", "111"),
            PromotionRule(),
            champion_generation=0,
        )

    assert store.find(ModelRegistry(store, folder).looks_uri) is None
