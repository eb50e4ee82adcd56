"""The folder of the emulator that came before: what is taken over, and what a kill leaves."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from object_store.errors import NotFound
from object_store.store import Store, Target
from object_store.takeover import take_over
from tests.unit.object_store.conftest import files, put, read

NAMES = {"model/": b"", "model/weights": b"\x00" * 2000, "é 👍": b"text"}


def resource(name: str, generation: str, **more: Any) -> dict[str, Any]:
    """Return an object as the emulator kept it."""
    return {
        "kind": "storage#object",
        "name": name,
        "bucket": "old",
        "generation": generation,
        "metageneration": "1",
        "contentType": "text/x",
        "storageClass": "STANDARD",
        "timeCreated": "2026-03-04T05:06:07.123456Z",
        "updated": "2026-03-04T05:06:08.000000Z",
        "acl": [],
        **more,
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    folder = root / "objects" / "old"
    folder.mkdir(parents=True)
    for name, content in NAMES.items():
        (folder / hashlib.sha256(name.encode()).hexdigest()).write_bytes(content)
    objects = {name: resource(name, str(1_700_000_000_000_000 + at)) for at, name in enumerate(NAMES)}
    objects["model/weights"] |= {"metadata": {"k": "v"}, "metageneration": "3", "temporaryHold": True}
    objects["lost"] = resource("lost", "5")
    bucket = {"name": "old", "location": "EU", "timeCreated": "2026-01-02T03:04:05Z", "cors": [{"x": 1}]}
    kept = {"buckets": {"old": bucket, "empty": {"name": "empty"}}, "objects": {"old": objects}}
    (root / "objects" / ".meta").write_text(json.dumps(kept))
    return root


def check(store: Store, root: Path) -> None:
    """Assert that all of the folder is in the store."""
    assert not (root / "objects").exists()
    assert [bucket.name for bucket in store.buckets("", "", 10)] == ["empty", "old"]
    for at, (name, content) in enumerate(NAMES.items()):
        found = store.object(Target(bucket="old", name=name))
        assert read(store, Target(bucket="old", name=name)) == content
        assert found.generation == 1_700_000_000_000_000 + at
        assert found.fields["contentType"] == "text/x"
    assert len(files(store)) == len(NAMES)


def test_all_is_taken_over_that_the_store_has(root: Path) -> None:
    store = Store(root)

    assert take_over(store, root) == len(NAMES)

    check(store, root)
    found = store.object(Target(bucket="old", name="model/weights"))
    assert (found.metageneration, found.fields["metadata"]) == (3, {"k": "v"})
    assert "temporaryHold" not in found.fields
    assert (found.created, found.updated) == (1_772_600_767_123_456, 1_772_600_768_000_000)
    assert store.bucket("old").fields == {"location": "EU"}
    with pytest.raises(NotFound):
        store.object(Target(bucket="old", name="lost"))
    assert take_over(store, root) == 0
    assert put(store, Target(bucket="old", name="new")).generation > 1_700_000_000_000_002
    store.close()


@pytest.mark.parametrize("kills_at", range(1, 8))
def test_a_kill_in_the_middle_is_gone_on_from(
    kills_at: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, steps = Store(root), []

    def killing(do: Any) -> Any:
        def step(*arguments: Any) -> Any:
            steps.append(do)
            if len(steps) == kills_at:
                raise KeyboardInterrupt
            return do(*arguments)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(store.catalog, "change", killing(store.catalog.change))
        patch.setattr(store.contents, "keep", killing(store.contents.keep))
        with pytest.raises(KeyboardInterrupt):
            take_over(store, root)
    store.close()

    again = Store(root)
    assert take_over(again, root) == len(NAMES)
    again.sweep()
    check(again, root)
    again.close()


def test_a_kill_while_the_folder_is_removed_is_gone_on_from(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, remove = Store(root), shutil.rmtree

    def remove_and_be_killed(path: Path) -> None:
        remove(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", remove_and_be_killed)
    with pytest.raises(KeyboardInterrupt):
        take_over(store, root)
    monkeypatch.setattr(shutil, "rmtree", remove)

    assert take_over(store, root) == len(NAMES)
    check(store, root)
    store.close()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"buckets": 5}', '{"objects": "x"}', "\xff"])
def test_a_file_that_cannot_be_read_is_said_and_left(text: str, root: Path) -> None:
    (root / "objects" / ".meta").write_text(text, "latin-1")
    store = Store(root)

    with pytest.raises(
        ValueError, match=r"\.meta, written by .* cannot be read: .* restore it from a backup"
    ):
        take_over(store, root)

    assert len(list((root / "objects" / "old").iterdir())) == len(NAMES)
    store.close()


def test_a_folder_without_one_is_nothing_to_take_over(store: Store, tmp_path: Path) -> None:
    assert take_over(store, tmp_path / "store") == 0
